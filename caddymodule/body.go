package caddymodule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"
)

// maxBodyBytes is the maximum size of a request body.
const maxBodyBytes = 64 << 10

// readObjects reads a JSON object or an array of objects such as example. batch
// reports an array. It ignores members that T lacks: pages outlive versions of
// this module.
func readObjects[T any](w http.ResponseWriter, r *http.Request, example string) (objects []T, batch bool, p *problem) {
	body, p := readBody(w, r)
	if p != nil {
		return nil, false, p
	}
	body = bytes.TrimSpace(body)
	var err error
	if batch = len(body) > 0 && body[0] == '['; batch {
		err = json.Unmarshal(body, &objects)
	} else {
		objects = make([]T, 1)
		err = json.Unmarshal(body, &objects[0])
	}
	if err != nil {
		return nil, batch, refuse(http.StatusBadRequest, "bad_json", "The body must be %s or an array of such objects: %s.", example, jsonMistake(err))
	}
	if len(objects) == 0 {
		return nil, batch, refuse(http.StatusBadRequest, "empty", "The array is empty.")
	}
	return objects, batch, nil
}

// readBody reads a body of text.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *problem) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, refuse(http.StatusRequestEntityTooLarge, "body_too_large", "The body has more than %d bytes.", maxBodyBytes)
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "bad_body", "The body could not be read.")
	}
	if !utf8.Valid(body) { // encoding/json would replace it
		return nil, refuse(http.StatusBadRequest, "bad_json", "The body is not UTF-8.")
	}
	return body, nil
}

// jsonMistake describes a body's mistake to readers who know JSON but not Go.
func jsonMistake(err error) string {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return kind.Field + " is " + article(kind.Value) + ", not " + article(kind.Type.String())
	case errors.As(err, &kind):
		return "it is " + article(kind.Value)
	case errors.As(err, &syntax):
		return fmt.Sprintf("at byte %d: %v", syntax.Offset, syntax)
	}
	return err.Error()
}

// article prefixes the name of a kind of value with a or an.
func article(kind string) string {
	if strings.ContainsRune("aeio", rune(kind[0])) {
		return "an " + kind
	}
	return "a " + kind
}

package reading

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/hotboard/hotboard/hit"
)

// parseItems reads the body of a request for several items of one list.
func parseItems(body []byte, defaultList string) (Request, *Error) {
	var q struct {
		List  string   `json:"list"`
		Items []string `json:"items"`
	}
	if bad := decodeBody(body, &q); bad != nil {
		return Request{}, bad
	}
	if len(q.Items) == 0 || len(q.Items) > MaxItems {
		return Request{}, BadRequest("bad_items", "The member items must have 1 to %d ids, not %d.", MaxItems, len(q.Items))
	}
	for i, id := range q.Items {
		if err := hit.ValidID(id); err != nil {
			return Request{}, BadRequest("bad_item", "Invalid item id in items[%d]: %v.", i, err)
		}
	}
	if q.List == "" {
		q.List = defaultList
	}
	return Request{Kind: ItemsOf, List: q.List, ID: strings.Join(q.Items, "\x00"), At: NoTime}, nil
}

// parseBoards reads the body of a request for several boards, each with the
// parameters of /hot.
func parseBoards(body []byte, defaultList string) ([]Request, *Error) {
	var q struct {
		Boards []struct {
			List    string `json:"list"`
			Period  string `json:"period"`
			Limit   *int   `json:"limit"`
			Offset  *int   `json:"offset"`
			At      string `json:"at"`
			Explain bool   `json:"explain"`
		} `json:"boards"`
	}
	if bad := decodeBody(body, &q); bad != nil {
		return nil, bad
	}
	if len(q.Boards) == 0 || len(q.Boards) > MaxBoards {
		return nil, BadRequest("bad_boards", "The member boards must have 1 to %d boards, not %d.", MaxBoards, len(q.Boards))
	}
	requests := make([]Request, len(q.Boards))
	rows := 0
	for i, b := range q.Boards {
		values := url.Values{"list": {b.List}, "period": {b.Period}, "at": {b.At}}
		if b.Limit != nil {
			values.Set("limit", strconv.Itoa(*b.Limit))
		}
		if b.Offset != nil {
			values.Set("offset", strconv.Itoa(*b.Offset))
		}
		if b.Explain {
			values.Set("explain", "1")
		}
		r, bad := parseOne(toBoard, "", values, defaultList)
		if bad != nil {
			bad.Message = fmt.Sprintf("In boards[%d]: %s", i, bad.Message)
			return nil, bad
		}
		requests[i] = r
		rows += r.Limit
	}
	if rows > MaxLimit {
		return nil, BadRequest("bad_limit", "The boards ask for %d items together; the maximum is %d.", rows, MaxLimit)
	}
	return requests, nil
}

// decodeBody reads a JSON object and refuses unknown members: an answer that
// ignored half of the question would be wrong.
func decodeBody(body []byte, v any) *Error {
	if len(body) > MaxBodyBytes {
		return &Error{Status: http.StatusRequestEntityTooLarge, Code: "body_too_large", Message: fmt.Sprintf("The body has more than %d bytes.", MaxBodyBytes)}
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil {
		if _, more := dec.Token(); more != io.EOF {
			err = fmt.Errorf("data after the object")
		}
	}
	if err != nil {
		return BadRequest("bad_json", "Invalid body: %.200s.", err.Error())
	}
	return nil
}

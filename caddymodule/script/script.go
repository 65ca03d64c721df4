// Package script serves hotboard.js, the script of the pages.
package script

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"
	"time"
)

const (
	// Path is the path of the script after the prefix.
	Path = "/hotboard.js"
	// maxAge lets browsers keep the script for an hour: a page may use the
	// previous configuration for that long.
	maxAge = "max-age=3600"
	// defaults is the placeholder for the configuration in the script's source.
	defaults = "{ honorOptOut: false }"
)

//go:embed hotboard.js
var source string

// Script is the script of one site.
type Script struct {
	text []byte
	etag string
}

// New returns the script with a site's configuration. With honorOptOut, the
// script reports no views of visitors who opt out.
func New(honorOptOut bool) *Script {
	config, err := json.Marshal(struct {
		HonorOptOut bool `json:"honorOptOut"`
	}{honorOptOut})
	if err != nil { // cannot fail: a boolean
		panic(err)
	}
	text := []byte(strings.Replace(source, defaults, string(config), 1))
	sum := fnv.New64a()
	sum.Write(text)
	return &Script{text: text, etag: fmt.Sprintf(`"%016x"`, sum.Sum64())}
}

// ServeHTTP serves the script.
func (s *Script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", maxAge)
	h.Set("Etag", s.etag)
	http.ServeContent(w, r, Path, time.Time{}, bytes.NewReader(s.text))
}

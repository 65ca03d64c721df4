package caddymodule

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
	// scriptPath is where the script is, after the prefix.
	scriptPath = "/hotboard.js"
	// scriptMaxAge lets browsers keep the script for an hour: that is how long a
	// page may heed the configuration that was.
	scriptMaxAge = "max-age=3600"
	// scriptDefaults is what the script's source has in place of its configuration.
	scriptDefaults = "{ honorOptOut: false }"
)

//go:embed script/hotboard.js
var scriptSource string

// script is the script of the pages, as one site serves it.
type script struct {
	text []byte
	etag string
}

// newScript returns the script, told what it cannot know by itself.
func newScript(honorOptOut bool) *script {
	config, err := json.Marshal(struct {
		HonorOptOut bool `json:"honorOptOut"`
	}{honorOptOut})
	if err != nil { // a boolean
		panic(err)
	}
	text := []byte(strings.Replace(scriptSource, scriptDefaults, string(config), 1))
	sum := fnv.New64a()
	sum.Write(text)
	return &script{text: text, etag: fmt.Sprintf(`"%016x"`, sum.Sum64())}
}

// serve answers with the script.
func (s *script) serve(w http.ResponseWriter, r *http.Request) *problem {
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", scriptMaxAge)
	h.Set("Etag", s.etag)
	http.ServeContent(w, r, scriptPath, time.Time{}, bytes.NewReader(s.text))
	return nil
}

package ruleset

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/hotboard/hotboard/ruleset/configfile"
)

// ParseYAML reads a rules file:
//
//	lists:
//	  - name: articles
//	    pages: ["/articles/{id}"]
//	    dedup: 1h
//
// The error joins a [*Problem] for every mistake, each with its place in the file.
func ParseYAML(file string, data []byte) (*Rules, error) {
	return ParseYAMLAt(file, data, "")
}

// ParseYAMLAt is [ParseYAML] for rules inside a larger file: the path "rules"
// or "$.rules" selects the value of the key rules. ParseYAMLAt ignores the rest
// of the file.
func ParseYAMLAt(file string, data []byte, path string) (*Rules, error) {
	doc, err := configfile.ParseYAML(file, data)
	if err != nil {
		return nil, err
	}
	return decode(doc, strings.TrimPrefix(strings.TrimPrefix(path, "$"), "."))
}

// ParseJSON reads rules that a program wrote as JSON. Its errors have no places in
// the text. Read JSON that somebody wrote with [ParseYAML]: JSON is YAML.
func ParseJSON(data []byte) (*Rules, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var c Config
	if err := dec.Decode(&c); err != nil {
		return nil, err
	}
	return compileFile(c)
}

func decode(doc *configfile.Node, path string) (*Rules, error) {
	var c Config
	var r *Rules
	err := doc.Decode(path, &c, func() (err error) {
		r, err = compileFile(c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// compileFile is [Compile] for a whole file, which must have lists. A program may
// add them later.
func compileFile(c Config) (*Rules, error) {
	r, err := Compile(c)
	if len(c.Lists) == 0 {
		err = errors.Join(err, &Problem{Path: "lists", Message: "no lists: nothing would be counted"})
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

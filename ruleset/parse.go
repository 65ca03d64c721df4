package ruleset

import (
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
// The returned ruleset is provisioned. The error joins a [*Problem] for every
// mistake, each with its place in the file.
func ParseYAML(file string, data []byte) (*Ruleset, error) {
	return ParseYAMLAt(file, data, "")
}

// ParseYAMLAt is [ParseYAML] for a ruleset inside a larger file: the path "rules"
// or "$.rules" selects the value of the key rules. ParseYAMLAt ignores the rest
// of the file.
func ParseYAMLAt(file string, data []byte, path string) (*Ruleset, error) {
	doc, err := configfile.ParseYAML(file, data)
	if err != nil {
		return nil, err
	}
	return decode(doc, strings.TrimPrefix(strings.TrimPrefix(path, "$"), "."))
}

// ParseJSON is [ParseYAML] for JSON.
func ParseJSON(data []byte) (*Ruleset, error) {
	doc, err := configfile.ParseJSON("", data)
	if err != nil {
		return nil, err
	}
	return decode(doc, "")
}

func decode(doc *configfile.Document, path string) (*Ruleset, error) {
	var r Ruleset
	err := doc.Decode(path, &r, func() error {
		err := r.Provision()
		if len(r.Lists) == 0 {
			// A program may add lists later, but a file is complete.
			err = errors.Join(err, &Problem{Path: "lists", Message: "no lists: nothing would be counted"})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &r, nil
}

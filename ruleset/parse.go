package ruleset

import (
	"errors"

	"github.com/hotboard/hotboard/ruleset/configfile"
)

// ParseYAML reads a rules file:
//
//	lists:
//	  - name: articles
//	    pages: ["/articles/{id}"]
//	    dedup: 1h
//
// The file may be JSON, which is YAML too. It must have lists. The error joins a
// [*Problem] for every mistake, each with its place in the file.
func ParseYAML(file string, data []byte) (*Rules, error) {
	doc, err := configfile.ParseYAML(file, data)
	if err != nil {
		return nil, err
	}
	var c Config
	var r *Rules
	err = doc.Decode("", &c, func() (err error) {
		r, err = Compile(c)
		if len(c.Lists) == 0 {
			err = errors.Join(err, &Problem{Path: "lists", Message: "no lists: nothing would be counted"})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

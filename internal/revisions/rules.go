package revisions

import (
	"encoding/json"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

type rules = ruleset.Rules

func documentOf(r *rules) []byte {
	doc, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return doc
}

func idOf(r *rules) hit.RulesID { return hit.RulesIDOf(documentOf(r)) }

func parse(doc []byte) (*rules, error) { return ruleset.ParseJSON(doc) }

// differences returns the differences between two sets of rules, as the end of a
// sentence.
func differences(was, is *rules) string { return "" }

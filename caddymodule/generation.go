package caddymodule

import (
	"github.com/hotboard/hotboard/caddymodule/botsfile"
	"github.com/hotboard/hotboard/caddymodule/limit"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/bots"
)

// botCache is the number of User-Agents with a cached verdict.
const botCache = 16384

// generation is what an edge needs of one state of the rules to judge requests.
type generation struct {
	rules    *ruleset.Rules
	bots     *bots.Classifier
	verdicts map[string]verdicts // by list; "" for requests without one
	limits   *limit.Limits       // set by bind
}

// newGeneration returns the generation of rules, with the patterns of a file of
// bots, which may be nil.
func newGeneration(rules *ruleset.Rules, file *botsfile.File) *generation {
	g := &generation{
		rules: rules,
		bots:  bots.New(rules.Bots, botCache),
		verdicts: map[string]verdicts{"": {
			ruleset.NoItem: newVerdict("", ruleset.NoItem), ruleset.UnknownList: newVerdict("", ruleset.UnknownList),
		}},
	}
	if file != nil {
		file.Use(g.bots)
	}
	for _, l := range rules.Lists {
		g.verdicts[l.Name] = verdictsOf(l, rules.Limits)
	}
	return g
}

// bind makes the generation ready for hits: the limits count in the runtime, and
// its outbox has the document. Release the limits when the generation ends.
func (g *generation) bind(rt *runtime) {
	g.limits = rt.limits.Bind(g.rules.Limits, g.rules.Lists)
	rt.register(g.rules)
}

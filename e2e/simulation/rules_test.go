package simulation

import (
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var tries = flag.Uint64("tries", 300, "histories in which each rule has to be missed")

// rules are those of the table in docs/architecture.md, by their text there, each
// with the design that lacks the rule. Where few histories need a rule, from is one
// of them.
var rules = map[string]struct {
	without design
	from    uint64
}{
	"a batch is on disk before it is acknowledged or published":                                                                                            {without: design{ackBeforeDisk: true}},
	"batches of an edge and shard are numbered without a gap and applied only in that order":                                                               {without: design{noNumbers: true}},
	"anything but an acknowledgement means \"unknown\": the edge sends the same batches again under the same numbers, perhaps with later ones beside them": {without: design{renumber: true}},
	"a batch stays in the spool until it was applied for a minute":                                                                                         {without: design{noKeep: true}},
	"an edge sends unapplied batches again on a timer":                                                                                                     {without: design{noResend: true}},
	"values and position change together, guarded by the position":                                                                                         {without: design{noPositionCheck: true}},
	"a read returns its position with the values":                                                                                                          {without: design{unnamedReads: true}},
	"every commit has a random version, compared with the position":                                                                                        {without: design{noVersion: true}, from: 685},
	"an aggregator compares the message at the position with the log on every connect (fingerprint)":                                                       {without: design{noFingerprint: true}, from: 425},
	"a message names the lowest batch that its edge can still send; a commit that skips batches missing from both edge and log records them as lost":       {without: design{noLow: true, forgetful: true}},
	"a window's count for a key changes in the same commit as the counts (memo)":                                                                           {without: design{noMemos: true}},
	"a batch names the document of rules under which its hits were accepted, and the fold judges them by that document":                                    {without: design{changingRules: true, onlyOwnRules: true}},
	"a shard waits until it can read the document that a batch names":                                                                                      {without: design{changingRules: true, skipUnread: true}},
	"the fold holds a batch of a newer version, like one behind a gap":                                                                                     {without: design{setAsideNewer: true}},
}

// Each rule is needed: without it the simulation finds histories that go wrong.
// This also shows that the simulation can find a fault.
func TestEveryRuleIsNeeded(t *testing.T) {
	for rule, tc := range rules {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			for n := range *tries {
				if wrong, _ := run(tc.from+n, tc.without); wrong != "" {
					t.Logf("without it, -seed %d: %s", tc.from+n, wrong)
					return
				}
			}
			t.Errorf("without it nothing goes wrong in %d histories: it is not needed, or the simulation does not see it; "+
				"after a change of the histories, look further with -tries 20000, and begin where that finds one", *tries)
		})
	}
}

// The document has exactly these rules.
func TestDocumentedRules(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n| rule | where | without it |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var documented []string
	for row := range strings.Lines(table) {
		documented = append(documented, strings.TrimSpace(strings.Split(row, "|")[1]))
	}
	slices.Sort(documented)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(rules)), documented); diff != "" {
		t.Errorf("docs/architecture.md has other rules (-simulated +documented)\n%s", diff)
	}
}

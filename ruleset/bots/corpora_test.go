package bots

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// corpus is a public list of User-Agents of one sort.
type corpus struct {
	name string
	bots bool
	// percent is the smallest share of bots to find, or the largest share of people
	// to mistake for bots.
	percent float64
	agents  []string
}

// openly are programs that identify themselves, but that lists of browsers contain
// all the same. The test excludes them from the lists of people: finding them is
// correct.
var openly = []string{"HeadlessChrome", "PhantomJS/", "wkhtmltoimage", "Chrome-Lighthouse"}

// notAgents are entries of lists of browsers that no browser sends.
var notAgents = []string{"", "ghostery"}

// TestCorpora measures the built-in rules alone, without a file, on lists that it
// fetches. We developed the rules with the first of the lists of bots, and looked
// at the others only afterwards.
func TestCorpora(t *testing.T) {
	t.Parallel()
	tarballs := npmPack(t)
	c := New(nil, 1)
	isBot := func(agent string) bool { return c.Classify(agent, netip.Addr{}).Bot }

	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "corpus\tUser-Agents\tbots\tpercent\ttarget")
	row := func(l corpus) {
		wrong, found := []string(nil), 0
		for _, agent := range l.agents {
			bot := isBot(agent)
			if bot {
				found++
			}
			if bot != l.bots {
				wrong = append(wrong, agent)
			}
		}
		percent := 100 * float64(found) / float64(len(l.agents))
		target, missed := fmt.Sprintf("≥ %v", l.percent), percent < l.percent
		if !l.bots {
			target, missed = fmt.Sprintf("≤ %v", l.percent), percent > l.percent
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%.2f\t%s\n", l.name, len(l.agents), found, percent, target)
		if missed {
			t.Errorf("%s: %.2f %% are held to be bots, which is not %s. Wrong are:\n%s", l.name, percent, target, strings.Join(wrong, "\n"))
		}
	}

	people := corpus{name: "people, all of these", percent: 0.1}
	for _, l := range corpora(t, tarballs) {
		if len(l.agents) == 0 {
			t.Fatalf("%s is empty", l.name)
		}
		if !l.bots {
			l.agents = slices.DeleteFunc(l.agents, func(a string) bool {
				return slices.Contains(notAgents, a) || slices.ContainsFunc(openly, func(s string) bool { return strings.Contains(a, s) })
			})
			people.agents = append(people.agents, l.agents...)
		}
		row(l)
	}
	people.agents = unique(people.agents)
	row(people)
	w.Flush()
	t.Logf("\n%s", table.String())

	same, measured := 0, devices(t, tarballs("user-agents@2.1.198", "dist/user-agents.json"))
	for agent, device := range measured {
		if c.Classify(agent, netip.Addr{}).Device == device {
			same++
		}
	}
	percent := 100 * float64(same) / float64(len(measured))
	t.Logf("devices as measured, npm user-agents 2.1.198: %d of %d (%.2f %%)", same, len(measured), percent)
	if percent < 98 {
		t.Error("less than 98 % of the devices are as measured")
	}
}

func unique(agents []string) []string {
	agents = slices.Clone(agents)
	slices.Sort(agents)
	return slices.Compact(agents)
}

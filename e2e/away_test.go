package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/hotboard/hotboard/e2e/stack"
	"github.com/hotboard/hotboard/internal/faults"
)

// TestEverythingAway takes away the services behind the edge, one at a time and all
// at once. Visitors must not notice, and every accepted hit must be counted
// afterwards.
func TestEverythingAway(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Options{})
	edge, aggregator := s.Edges[0], s.Aggregators[0]
	st := s.Store()
	hot := edge.URL + "/hot?list=" + stack.List + "&period=all"
	part := map[string]process{"NATS": s.NATS, "Redis": s.Redis, "the aggregator": aggregator}
	l := startLoad(t, loadOptions{sites: []string{edge.URL}, beacons: 50, pages: 50, strict: true})
	before := pageAsServed(t, edge.URL)

	for _, tt := range []struct {
		away  []string
		fault faults.Kind // that the aggregator, if any, must show
	}{
		{[]string{"NATS"}, faults.LogAway},
		{[]string{"Redis"}, faults.StoreAway},
		{[]string{"the aggregator"}, ""},
		{[]string{"NATS", "Redis", "the aggregator"}, ""},
	} {
		// One after the other: they share the stack.
		t.Run(fmt.Sprint(tt.away), func(t *testing.T) {
			eventually(t, func() string { return fresh(hot) })
			for _, name := range tt.away {
				part[name].Kill()
			}
			eventually(t, func() string { return stale(hot) })
			if tt.fault != "" {
				eventually(t, func() string {
					status, found, err := aggregator.Ready()
					if err != nil || status != http.StatusServiceUnavailable || !hasFault(found, tt.fault) {
						return fmt.Sprintf("/-/ready does not say %s: %d %+v %v", tt.fault, status, found, err)
					}
					return ""
				})
			}
			// The load is strict: a page that is not served, or a beacon that is not
			// accepted, is an error.
			enough(t, l, 100)
			if got := pageAsServed(t, edge.URL); got != before {
				t.Errorf("the page is served as\n%s\ninstead of\n%s", got, before)
			}
			if wrong := stale(hot); wrong != "" {
				t.Error(wrong)
			}
			// In the worst order: none finds the services that it needs.
			for _, name := range slices.Backward(tt.away) {
				part[name].Relaunch()
			}
			eventually(t, func() string {
				if wrong := unready(s.Aggregators); wrong != "" {
					return wrong
				}
				return fresh(hot)
			})
		})
	}

	ledger := l.stop()
	settle(t, s, st, ledger.exact)
	t.Logf("acknowledged %d beacons and served %d pages", ledger.acknowledged(), ledger.pageViews())
}

// pageAsServed returns a page with its header, except for the time.
func pageAsServed(t *testing.T, site string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, site+"/articles/"+stack.Pages()[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	visitor(r, 1<<24-1) // from an address that no visitor of the load has
	r.Header.Set("User-Agent", "Googlebot/2.1 (+http://www.google.com/bot.html)")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := readAll(resp)
	if err != nil {
		t.Fatal(err)
	}
	resp.Header.Del("Date")
	return fmt.Sprint(resp.Status, "\n", resp.Header, "\n", body)
}

// stale returns why a board is not the last answer, marked as stale, or "".
func stale(url string) string { return marked(url, "1") }

// fresh returns why a board is not a current answer, or "".
func fresh(url string) string { return marked(url, "") }

func marked(url, mark string) string {
	resp, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := readAll(resp)
	if err != nil {
		return err.Error()
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Hotboard-Stale") != mark {
		return fmt.Sprintf("the board is answered %s, Hotboard-Stale is %q and has to be %q: %.200s",
			resp.Status, resp.Header.Get("Hotboard-Stale"), mark, body)
	}
	return ""
}

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hotboard/hotboard/e2e/stack"
	"github.com/hotboard/hotboard/hit"
)

// dinnerVotes is the number of votes on a list that only the edge knows.
const dinnerVotes = 126

// withDinner returns the path of a copy of the edge's Caddyfile with one more list.
func withDinner(t *testing.T, edge *stack.Edge) string {
	t.Helper()
	text, err := os.ReadFile(edge.Config)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "\trules_file", "\tlist dinner {\n\t\t\tvotes *\n\t\t}\n\t\trules_file", 1)
	if changed == string(text) {
		t.Fatalf("the Caddyfile has no rules:\n%s", text)
	}
	file := filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// post sends JSON like a page's script, and returns the status.
func post(t *testing.T, url, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", browser)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// dine casts votes for dinner, each for an option of its own, and returns the
// number of accepted ones.
func dine(t *testing.T, edge *stack.Edge, from, to int) (accepted int) {
	t.Helper()
	for n := from; n < to; n++ {
		if post(t, edge.URL+"/api/votes", fmt.Sprintf(`{"list":"dinner","option":"%d"}`, n)) == http.StatusAccepted {
			accepted++
		}
	}
	return accepted
}

// TestNewListAtTheEdgeFirst reloads an edge with a new list before any aggregator
// knows it. Every vote that the edge accepts on the list is counted.
func TestNewListAtTheEdgeFirst(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]stack.Options{
		"aggregators follow":                 {AggregatorsFollow: true},
		"the aggregators' rules lack a list": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stack.Start(t, o)
			edge, aggregator := s.Edges[0], s.Aggregators[0]
			st := s.Store()
			var accepted atomic.Int64
			counted := func() {
				t.Helper()
				settled(t, s, st, func() string {
					counts, err := storeCounts(t.Context(), st, hit.Vote, "dinner")
					if err != nil {
						return err.Error()
					}
					sum := 0
					for _, n := range counts {
						sum += n
					}
					if sum != int(accepted.Load()) || len(counts) != sum {
						return fmt.Sprintf("%d votes for %d options are counted of %d accepted ones", sum, len(counts), accepted.Load())
					}
					return ""
				})
			}
			eventually(t, func() string { return unshared(s.Edges) })
			edge.Reload(t, withDinner(t, edge))
			accepted.Add(int64(dine(t, edge, 0, dinnerVotes)))
			if accepted.Load() != dinnerVotes {
				t.Errorf("the edge has accepted %d of %d votes", accepted.Load(), dinnerVotes)
			}
			counted()

			// A list comes and goes while nobody counts.
			aggregator.Kill()
			accepted.Add(int64(dine(t, edge, dinnerVotes, 2*dinnerVotes)))
			edge.Reload(t, edge.Config)
			aggregator.Relaunch()
			counted()
		})
	}
}

// TestFollowers: edges without rules count by those of the aggregators, and get
// their changes without a reload.
func TestFollowers(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Options{Edges: 2, EdgesFollow: true})
	edge, aggregator := s.Edges[0], s.Aggregators[0]
	accepted := func(url, body string) {
		t.Helper()
		eventually(t, func() string {
			if status := post(t, url, body); status != http.StatusAccepted {
				return fmt.Sprintf("%s: %d", body, status)
			}
			return ""
		})
	}
	for i, e := range s.Edges {
		accepted(e.URL+"/api/views", fmt.Sprintf(`{"articleId":"from-%d"}`, i))
	}
	if status := post(t, edge.URL+"/api/votes", `{"list":"dinner","option":"early"}`); status != http.StatusBadRequest {
		t.Errorf("a vote on an unknown list: %d", status)
	}
	if err := os.WriteFile(s.Rules(), []byte(stack.DefaultRules+"  - name: dinner\n    votes: {options: [\"*\"]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(aggregator.URL+"/-/reload", "", nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("reloading the aggregator: %v %v", resp, err)
	}
	resp.Body.Close()
	accepted(edge.URL+"/api/votes", `{"list":"dinner","option":"ramen"}`)
	st := s.Store()
	settled(t, s, st, func() string {
		votes, err := storeCounts(t.Context(), st, hit.Vote, "dinner")
		if err != nil {
			return err.Error()
		}
		views, err := storeCounts(t.Context(), st, hit.View, stack.List)
		if err != nil {
			return err.Error()
		}
		if votes["ramen"] != 1 || views["from-0"] != 1 || views["from-1"] != 1 {
			return fmt.Sprintf("counted %v and %v", votes, views)
		}
		return ""
	})
}

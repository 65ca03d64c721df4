package caddymodule

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// voteCounter plays the aggregator for votes: the rules of counting, with nothing
// around them.
type voteCounter struct {
	t     testing.TB
	log   *natsLog
	rules *ruleset.Rules

	mu      sync.Mutex
	used    map[string]int64 // by list, rule, window, its start and key
	votes   map[string]int64 // counted, by list and option
	refused int
	seen    int
	silent  bool
}

// countVotes counts what arrives in the log until the test ends, and tells the
// edges.
func (l *natsLog) countVotes(t testing.TB, rules *ruleset.Rules) *voteCounter {
	t.Helper()
	c := &voteCounter{t: t, log: l, rules: rules, used: make(map[string]int64), votes: make(map[string]int64)}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case h := <-l.hits:
				c.count(h)
			case <-done:
				return
			}
		}
	})
	t.Cleanup(func() { close(done); wg.Wait() })
	return c
}

func (c *voteCounter) count(h hit.Hit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen++
	list := c.rules.List(h.List)
	outcome := hit.VoteOutcome{Confirm: h.Confirm, Reason: string(ruleset.Counted)}
	var said hit.Outcomes
	at := func(q hit.Quota) (key string, start int64, max int64) {
		l := c.rules.Limit(q.Limit)
		w := l.Window(q.Window)
		from, _ := w.Period().Bounds(time.UnixMilli(h.Time), list.Location())
		if !from.IsZero() {
			start = from.Unix()
		}
		return fmt.Sprintf("%s %s %s %d %x", h.List, q.Limit, q.Window, start, q.Key), start, l.Max(w, h.Channel)
	}
	tell := func(q hit.Quota) {
		key, start, max := at(q)
		if n := c.used[key]; n >= max {
			said.Used = append(said.Used, hit.UsedQuota{List: h.List, Limit: q.Limit, Window: q.Window, Start: start, Key: q.Key, Count: n})
		}
	}
	for _, q := range h.Quotas {
		if key, _, max := at(q); c.used[key] >= max {
			outcome.Reason, outcome.Limit = string(ruleset.OverQuota), q.Limit
			tell(q)
		}
	}
	if outcome.Reason == string(ruleset.Counted) {
		c.votes[h.List+"/"+h.Item]++
		outcome.Score, outcome.Rank = float64(c.votes[h.List+"/"+h.Item]), 1
		for _, q := range h.Quotas {
			key, _, _ := at(q)
			c.used[key]++
			tell(q)
		}
	} else {
		c.refused++
	}
	if h.Confirm != 0 {
		said.Votes = append(said.Votes, outcome)
	}
	if !c.silent && (said.Votes != nil || said.Used != nil) {
		c.log.say(c.t, said)
	}
}

// totals returns how many votes were counted and refused.
func (c *voteCounter) totals() (counted, refused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.votes {
		counted += int(n)
	}
	return counted, c.refused
}

// say sends the outcomes of votes to the edges.
func (l *natsLog) say(t testing.TB, said hit.Outcomes) {
	data, err := json.Marshal(said)
	if err == nil {
		err = l.conn.Publish(hit.SubjectOutcomes, data)
	}
	if err != nil {
		t.Errorf("telling the edges: %v", err)
	}
}

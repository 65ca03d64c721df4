package main

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/bots"
)

func testPlan(dedup time.Duration, visitors int) (*plan, time.Time) {
	start := time.Date(2026, 11, 20, 23, 50, 0, 0, time.UTC) // the run crosses midnight
	var pages []string
	for i := range 12 {
		pages = append(pages, fmt.Sprintf("/articles/a%d", i))
	}
	return newPlan(planOptions{
		pages: pages, assets: []string{"/site.css"}, visitors: visitors, dedup: dedup, seed: 7, start: start,
	}), start
}

// TestPlanAgreesWithRules compares the plan's verdicts with a site's rules: the
// plan knows the intention, the rules see only the request.
func TestPlanAgreesWithRules(t *testing.T) {
	t.Parallel()
	const dedup = 10 * time.Minute
	p, now := testPlan(dedup, 500)
	classifier, rules := bots.New(nil, 100), new(ruleset.Rules)

	type pair struct {
		visitor uint64
		path    string
		day     time.Time
	}
	last := map[pair]time.Time{}
	var got [3]int
	for range 40_000 { // more than half an hour
		now = now.Add(50 * time.Millisecond)
		r := p.next(now)
		v := ignored
		agent := r.header.Get("User-Agent")
		q := ruleset.Request{Method: r.method, Header: r.header, BotClass: classifier.Classify(agent, netip.Addr{}).Class}
		if rules.Judge(q).Against == "" && r.kind != asset {
			day := now.Truncate(24 * time.Hour)
			at := pair{ruleset.Visitor([]byte("salt"), netip.MustParseAddr(r.header.Get(forwarded)), agent), r.path, day}
			if before, ok := last[at]; ok && now.Sub(before) < dedup {
				v = duplicate
			} else {
				v = counted
				last[at] = now
			}
		}
		if v != r.verdict {
			t.Fatalf("%s %s %v: the rules say %d, the plan %d", r.method, r.path, r.header, v, r.verdict)
		}
		got[r.verdict]++
	}
	for v, n := range got {
		if n < 1000 {
			t.Errorf("verdict %d: %d requests of 40,000 are too few to show anything", v, n)
		}
	}
}

func TestPlanKeepsAwayFromTheEndOfTheWindow(t *testing.T) {
	t.Parallel()
	const dedup = time.Minute
	p, now := testPlan(dedup, 50)
	last := map[string]time.Time{}
	for range 40_000 {
		now = now.Add(25 * time.Millisecond)
		r := p.next(now)
		if r.kind != read {
			continue
		}
		who := r.header.Get(forwarded) + r.path
		if before, ok := last[who]; ok {
			if d := now.Sub(before); d > dedup-edge && d < dedup+edge {
				t.Fatalf("a view came %v after the last one that counted", d)
			}
		}
		if r.verdict == counted {
			last[who] = now
		}
	}
}

func TestPlanShape(t *testing.T) {
	t.Parallel()
	p, now := testPlan(10*time.Minute, 2000)
	var sent [kinds]int
	views := map[string]int{}
	bursts := map[string]bool{}
	const n = 50_000
	for range n {
		now = now.Add(20 * time.Millisecond)
		r := p.next(now)
		sent[r.kind]++
		if r.kind == read {
			views[r.path]++
		}
		if b := p.bursting(); b != "" {
			bursts[b] = true
		}
	}
	for k, share := range shares {
		if got := 100 * float64(sent[k]) / n; got < float64(share)-1 || got > float64(share)+1 {
			t.Errorf("%s: %.1f of a hundred, want about %d", kindNames[k], got, share)
		}
	}
	if len(views) != 12 {
		t.Errorf("%d of 12 articles were read", len(views))
	}
	if len(bursts) < 3 {
		t.Errorf("%d articles had a burst in %v", len(bursts), n*20*time.Millisecond)
	}
}

func TestSameSeedSameTraffic(t *testing.T) {
	t.Parallel()
	a, now := testPlan(time.Minute, 100)
	b, _ := testPlan(time.Minute, 100)
	for range 1000 {
		now = now.Add(time.Millisecond)
		x, y := a.next(now), b.next(now)
		if x.path != y.path || x.kind != y.kind || x.header.Get(forwarded) != y.header.Get(forwarded) {
			t.Fatalf("%v and %v differ", x, y)
		}
	}
}

func TestVisitorsDiffer(t *testing.T) {
	t.Parallel()
	p, _ := testPlan(time.Minute, 30_000)
	seen := map[netip.Prefix]bool{}
	for i := range p.visitors {
		a := p.crowd.address(i)
		bits := 32
		if a.Is6() {
			bits = 64 // IPv6 visitors are identified by network
		}
		network := netip.PrefixFrom(a, bits).Masked()
		if seen[network] {
			t.Fatalf("visitor %d shares %v with another", i, network)
		}
		seen[network] = true
	}
}

func TestAgents(t *testing.T) {
	t.Parallel()
	classifier := bots.New(nil, 100)
	for _, agent := range browsers {
		if v := classifier.Classify(agent, netip.Addr{}); v.Bot {
			t.Errorf("%q is taken for a bot: %s", agent, v.Reason)
		}
	}
	for _, agent := range botAgents {
		if v := classifier.Classify(agent, netip.Addr{}); !v.Bot {
			t.Errorf("%q is taken for a browser", agent)
		}
	}
}

package caddymodule

import (
	"hash/maphash"
	"net/url"
	"sync"
	"time"

	"github.com/hotboard/hotboard/hit"
)

const (
	// pendingLife is how long a speculative view waits for its page to be shown.
	// Browsers keep what they prefetched or prerendered for five minutes.
	pendingLife = 5 * time.Minute
	// maxPending bounds how many wait.
	maxPending = 65536
)

// pendingViews are the speculative views: pages that a browser fetched before anybody
// had asked to see them. When the page is shown, its script says so, and they are
// counted; otherwise they are forgotten.
//
// It is bounded by two generations: when the young one has lasted as long as a
// view waits, or is full, the old one is forgotten.
type pendingViews struct {
	seed maphash.Seed

	mu         sync.Mutex
	young, old map[pageKey]waiting
	began      time.Time // when the young generation did
}

// pageKey stands for a page that a client has asked for. It means nothing outside
// this process.
type pageKey uint64

// waiting is what is counted once the page is shown.
type waiting struct {
	since time.Time
	views []speculation
}

// speculation is one view that waits. The list goes by its name, because a reload
// may come between.
type speculation struct {
	list, item string
	published  int64 // as in hit.Hit
	from       hit.Source
}

func newPendingViews() *pendingViews {
	return &pendingViews{seed: maphash.MakeSeed(), young: make(map[pageKey]waiting)}
}

// key returns the key of a page: host is that of the request, u what was asked
// for, with the query. The client goes by address and User-Agent even where the
// site names visitors: the answer to the first request may be what names them.
func (p *pendingViews) key(c *client, host string, u *url.URL) pageKey {
	var m maphash.Hash
	m.SetSeed(p.seed)
	ip := c.ip.As16()
	m.Write(ip[:])
	for _, s := range [...]string{c.userAgent, host, u.Path, u.RawQuery} {
		m.WriteString(s)
		m.WriteByte(0) // a path can have one; so be it
	}
	return pageKey(m.Sum64())
}

// put has views wait for their page to be shown.
func (p *pendingViews) put(k pageKey, now time.Time, views []speculation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(now)
	if len(p.young) >= maxPending/2 {
		p.forget(now)
	}
	p.young[k] = waiting{now, views}
}

// take returns the views that waited for a page, which is shown now. They wait no
// longer: settled or putBack has to follow.
func (p *pendingViews) take(k pageKey, now time.Time) waiting {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(now)
	w, ok := p.young[k]
	delete(p.young, k)
	if !ok {
		w = p.old[k]
	}
	delete(p.old, k)
	if now.Sub(w.since) >= pendingLife {
		w.count("expired")
		return waiting{}
	}
	return w
}

// settled notes that views which were taken are confirmed.
func (w waiting) settled() { w.count("confirmed") }

// putBack has views that were taken wait again, for as long as they would have:
// they could not be stored, and the script was asked to try again.
func (p *pendingViews) putBack(k pageKey, w waiting) {
	if len(w.views) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.young[k] = w
}

// len returns how many pages wait.
func (p *pendingViews) len(now time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(now)
	return len(p.young) + len(p.old)
}

// turn begins a new generation if it is time to. The caller holds mu.
func (p *pendingViews) turn(now time.Time) {
	age := now.Sub(p.began)
	if age >= pendingLife {
		p.forget(now)
	}
	if age >= 2*pendingLife { // the young one is as old
		p.forget(now)
	}
}

// forget gives up the old generation, and makes the young one the old one.
func (p *pendingViews) forget(now time.Time) {
	for _, w := range p.old {
		if now.Sub(w.since) >= pendingLife {
			w.count("expired")
		} else {
			w.count("dropped")
		}
	}
	p.old, p.young = p.young, make(map[pageKey]waiting)
	p.began = now
}

func (w waiting) count(outcome string) {
	for _, v := range w.views {
		speculativeTotal.WithLabelValues(v.list, outcome).Inc()
	}
}

// Package pending holds pending views in memory: the views of pages that a
// browser fetched before anybody asked to see them.
package pending

import (
	"hash/maphash"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/hotboard/hotboard/hit"
)

const (
	// Life is how long a view waits for its page to be shown. Browsers keep a page
	// that they prefetched or prerendered for five minutes.
	Life = 5 * time.Minute
	// maxPages is how many pages may wait.
	maxPages = 65536
)

// The outcomes of a pending view.
const (
	confirmed = "confirmed" // its page was shown
	expired   = "expired"   // its page was not shown
	dropped   = "dropped"   // too many waited
)

// Views holds the views of pages that wait to be shown. When a page is shown, its
// script reports it, and the caller takes and counts the views; the others are
// forgotten.
//
// Two generations bound the memory: when the young one has lasted for [Life], or
// is full, the old one is forgotten.
//
// A Views may be used by several goroutines at once.
type Views struct {
	count func(list, outcome string)
	seed  maphash.Seed

	mu         sync.Mutex
	young, old map[Key]page
	began      time.Time // when the young generation did
}

// Key stands for a page that a client has asked for. It means nothing outside
// this process.
type Key uint64

// page is a page that waits to be shown.
type page struct {
	since time.Time
	views []View
}

// View is one view that waits. It names its list, because a reload may come
// between.
type View struct {
	List, Item    string
	Published     int64 // as in [hit.Hit]
	PublishedFrom hit.Source
}

// New returns Views without any. They call count with the outcome of each view and
// its list: confirmed, expired (its page was not shown in time) or dropped (too
// many waited).
func New(count func(list, outcome string)) *Views {
	return &Views{count: count, seed: maphash.MakeSeed(), young: make(map[Key]page)}
}

// KeyOf returns the key of a page: host is the host of the request, and u its URL
// with the query. Address and User-Agent identify the client even where the site
// names visitors, because the answer to the first request may be what names them.
func (v *Views) KeyOf(ip netip.Addr, userAgent, host string, u *url.URL) Key {
	var m maphash.Hash
	m.SetSeed(v.seed)
	address := ip.As16()
	m.Write(address[:])
	for _, s := range [...]string{userAgent, host, u.Path, u.RawQuery} {
		m.WriteString(s)
		m.WriteByte(0) // a path can have one; so be it
	}
	return Key(m.Sum64())
}

// Put makes views wait for their page to be shown.
func (v *Views) Put(k Key, now time.Time, views []View) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.turn(now)
	if len(v.young) >= maxPages/2 {
		v.forget(now)
	}
	v.young[k] = page{now, views}
}

// Taken is the views that waited for a page which is shown now. Call Settled or
// PutBack.
type Taken struct {
	Views []View

	since time.Time
	from  *Views
	key   Key
}

// Take returns the views that waited for a page, which is shown now. They wait no
// longer.
func (v *Views) Take(k Key, now time.Time) Taken {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.turn(now)
	p, ok := v.young[k]
	delete(v.young, k)
	if !ok {
		p = v.old[k]
	}
	delete(v.old, k)
	if now.Sub(p.since) >= Life {
		v.end(p.views, expired)
		return Taken{}
	}
	return Taken{p.views, p.since, v, k}
}

// Settled notes that the views are confirmed: they are stored, or limits refused
// them.
func (t *Taken) Settled() {
	if t.from != nil {
		t.from.end(t.Views, confirmed)
	}
}

// PutBack makes the views wait again, for as long as they would have: they could
// not be stored, and the script was asked to try again.
func (t *Taken) PutBack() {
	if len(t.Views) == 0 {
		return
	}
	t.from.mu.Lock()
	defer t.from.mu.Unlock()
	t.from.young[t.key] = page{t.since, t.Views}
}

// Len returns how many pages wait.
func (v *Views) Len(now time.Time) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.turn(now)
	return len(v.young) + len(v.old)
}

// turn begins a new generation if it is time to. The caller holds mu.
func (v *Views) turn(now time.Time) {
	age := now.Sub(v.began)
	if age >= Life {
		v.forget(now)
	}
	if age >= 2*Life { // the young one is as old
		v.forget(now)
	}
}

// forget drops the old generation, and makes the young one the old one.
func (v *Views) forget(now time.Time) {
	for _, p := range v.old {
		if now.Sub(p.since) >= Life {
			v.end(p.views, expired)
		} else {
			v.end(p.views, dropped)
		}
	}
	v.old, v.young = v.young, make(map[Key]page)
	v.began = now
}

func (v *Views) end(views []View, outcome string) {
	for i := range views {
		v.count(views[i].List, outcome)
	}
}

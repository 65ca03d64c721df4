// Package pending holds pending views in memory: the views of pages that a
// browser fetched but has not shown.
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
	// Life is how long a view waits for the browser to show its page. Browsers
	// keep a prefetched or prerendered page for five minutes.
	Life = 5 * time.Minute
	// maxPages is the maximum number of waiting pages.
	maxPages = 65536
)

// The outcomes of a pending view.
const (
	confirmed = "confirmed" // the browser showed its page
	expired   = "expired"   // the browser did not show its page in time
	dropped   = "dropped"   // too many pages waited
)

// Views holds the views of pages that wait to be shown. When the browser shows a
// page, its script reports it, and the caller takes and counts the views; the
// others expire.
//
// Two generations bound the memory: when the young one is [Life] old or full, the
// old one is dropped.
//
// Views is safe for concurrent use.
type Views struct {
	count func(list, outcome string)
	seed  maphash.Seed

	mu         sync.Mutex
	young, old map[Key]page
	began      time.Time // start of the young generation
}

// Key stands for a page that a client has requested. It has no meaning outside
// this process.
type Key uint64

// page is a page that waits to be shown.
type page struct {
	since time.Time
	views []View
}

// View is one waiting view. It names its list, because the configuration may
// change while it waits.
type View struct {
	List, Item    string
	Published     int64 // as in [hit.Hit]
	PublishedFrom hit.Source
}

// New returns empty Views. They call count with the outcome and list of each
// view: confirmed, expired (the browser did not show its page in time) or dropped
// (too many waited).
func New(count func(list, outcome string)) *Views {
	return &Views{count: count, seed: maphash.MakeSeed(), young: make(map[Key]page)}
}

// KeyOf returns the key of a page: host is the host of the request, and u its URL
// with the query. Address and User-Agent identify the client even where the site
// names visitors, because the site may name the visitor only in the first
// response.
func (v *Views) KeyOf(ip netip.Addr, userAgent, host string, u *url.URL) Key {
	var m maphash.Hash
	m.SetSeed(v.seed)
	address := ip.As16()
	m.Write(address[:])
	for _, s := range [...]string{userAgent, host, u.Path, u.RawQuery} {
		m.WriteString(s)
		m.WriteByte(0) // a path may contain a zero byte; a rare collision does no harm
	}
	return Key(m.Sum64())
}

// Put stores views until their page is shown.
func (v *Views) Put(k Key, now time.Time, views []View) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.turn(now)
	if len(v.young) >= maxPages/2 {
		v.forget(now)
	}
	v.young[k] = page{now, views}
}

// Taken holds the views of a page that is now shown. Call Settled or PutBack.
type Taken struct {
	Views []View

	since time.Time
	from  *Views
	key   Key
}

// Take removes and returns the views of a page that is now shown.
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

// Settled records the views as confirmed: they are stored, or limits refused
// them.
func (t *Taken) Settled() {
	if t.from != nil {
		t.from.end(t.Views, confirmed)
	}
}

// PutBack makes the views wait again for the rest of their time, because they
// could not be stored and the script will try again.
func (t *Taken) PutBack() {
	if len(t.Views) == 0 {
		return
	}
	t.from.mu.Lock()
	defer t.from.mu.Unlock()
	t.from.young[t.key] = page{t.since, t.Views}
}

// Len returns the number of waiting pages.
func (v *Views) Len(now time.Time) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.turn(now)
	return len(v.young) + len(v.old)
}

// turn begins a new generation if it is time. The caller holds mu.
func (v *Views) turn(now time.Time) {
	age := now.Sub(v.began)
	if age >= Life {
		v.forget(now)
	}
	if age >= 2*Life { // then the young one is too old as well
		v.forget(now)
	}
}

// forget drops the old generation and makes the young one the old one.
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

package main

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// kind is the kind of thing that a request imitates.
type kind int

const (
	read     kind = iota // a visitor opens an article
	bot                  // a program opens an article
	prefetch             // a browser fetches an article before anyone asks for it
	head                 // a monitor or link checker asks for headers
	asset                // the style sheet or script of a page
	kinds                // the number of kinds
)

var kindNames = [kinds]string{"read", "bot", "prefetch", "HEAD", "asset"}

// shares are the number of requests of each kind in a hundred.
var shares = [kinds]int{read: 78, bot: 8, prefetch: 5, head: 2, asset: 7}

// verdict is the correct verdict on a request.
type verdict int

const (
	ignored   verdict = iota // not a view
	counted                  // a view
	duplicate                // a view by the same visitor too soon after the last one
)

// request is one request of the plan.
type request struct {
	kind    kind
	method  string
	path    string
	header  http.Header
	verdict verdict
}

// edge is the least distance between the end of the dedup window and a second view:
// a few milliseconds between this clock and the site's must not decide whether it
// is a duplicate.
const edge = 5 * time.Second

// Shape of the traffic.
const (
	zipfS         = 1.15 // popularity of the n-th article is (zipfV+n)^-zipfS
	zipfV         = 2
	burstShare    = 0.45            // of the readers read the article in a burst
	burstShortest = 6 * time.Second // and at most twice that
	calmShortest  = 5 * time.Second // between two bursts, and at most three times that
	reloadShare   = 0.05            // of the views repeat a recent one
	recentReads   = 64              // that a repeated view chooses from
)

type planOptions struct {
	pages    []string // paths of the articles
	assets   []string // paths of style sheets and scripts; may be empty
	visitors int
	dedup    time.Duration
	seed     uint64
	start    time.Time
}

// plan decides on the next request. It has no clock and no connection: the same
// seed and the same times give the same requests. It is not safe for concurrent
// use.
type plan struct {
	planOptions
	rand    *rand.Rand
	zipf    *rand.Zipf
	byRank  []int // page by popularity
	crowd   *crowd
	last    map[look]time.Time // the last counted view of a page by a visitor
	recent  []look             // ring of the latest reads
	reads   int
	burst   int       // page in a burst, or -1
	turning time.Time // when the burst ends or the next one begins
}

// look is a visitor with a page.
type look struct {
	visitor, page int
}

func newPlan(o planOptions) *plan {
	r := rand.New(rand.NewPCG(o.seed, 0))
	p := &plan{
		planOptions: o, rand: r, byRank: r.Perm(len(o.pages)),
		zipf:  rand.NewZipf(r, zipfS, zipfV, uint64(len(o.pages)-1)),
		crowd: newCrowd(r, o.visitors), last: map[look]time.Time{}, burst: -1,
	}
	p.turning = o.start.Add(calmShortest)
	return p
}

// next returns the request for an instant, which never goes back.
func (p *plan) next(now time.Time) request {
	p.turn(now)
	n := p.rand.IntN(100)
	k := read
	for ; n >= shares[k]; k++ {
		n -= shares[k]
	}
	if k == asset && len(p.assets) == 0 {
		k = read
	}
	req := request{kind: k, method: http.MethodGet}
	switch k {
	case read:
		l := p.look(now)
		req.path, req.header = p.pages[l.page], p.crowd.browser(l.visitor).document()
		req.verdict = p.judge(l, now)
	case bot:
		req.path, req.header = p.pages[p.rand.IntN(len(p.pages))], p.crowd.bot(p.rand)
	case prefetch:
		req.path, req.header = p.pages[p.page()], p.crowd.browser(p.rand.IntN(p.visitors)).prefetch(p.rand)
	case head:
		req.method = http.MethodHead
		req.path, req.header = p.pages[p.page()], p.crowd.browser(p.rand.IntN(p.visitors)).document()
	case asset:
		req.path, req.header = p.assets[p.rand.IntN(len(p.assets))], p.crowd.browser(p.rand.IntN(p.visitors)).asset()
	}
	return req
}

// turn begins or ends a burst when it is due.
func (p *plan) turn(now time.Time) {
	if now.Before(p.turning) {
		return
	}
	if p.burst >= 0 {
		p.burst = -1
		p.turning = now.Add(calmShortest + time.Duration(p.rand.Int64N(int64(2*calmShortest))))
		return
	}
	// From the less popular half, which can still climb.
	rank := len(p.byRank)/2 + p.rand.IntN((len(p.byRank)+1)/2)
	p.burst = p.byRank[rank]
	p.turning = now.Add(burstShortest + time.Duration(p.rand.Int64N(int64(burstShortest))))
}

// bursting returns the path of the article in a burst, or "".
func (p *plan) bursting() string {
	if p.burst < 0 {
		return ""
	}
	return p.pages[p.burst]
}

func (p *plan) page() int {
	if p.burst >= 0 && p.rand.Float64() < burstShare {
		return p.burst
	}
	return p.byRank[p.zipf.Uint64()]
}

// look chooses a reader and a page.
func (p *plan) look(now time.Time) look {
	var l look
	if len(p.recent) > 0 && p.rand.Float64() < reloadShare {
		l = p.recent[p.rand.IntN(len(p.recent))]
	} else {
		l = look{p.rand.IntN(p.visitors), p.page()}
	}
	// A visitor near the end of the window lets another one go first. If all of them
	// are near it, the last candidate goes.
	for range p.visitors {
		last, ok := p.last[l]
		if d := now.Sub(last); !ok || p.dedup == 0 || d < p.dedup-edge || d > p.dedup+edge {
			break
		}
		l.visitor = (l.visitor + 1) % p.visitors
	}
	if len(p.recent) < recentReads {
		p.recent = append(p.recent, l)
	} else {
		p.recent[p.reads%recentReads] = l
	}
	p.reads++
	return l
}

func (p *plan) judge(l look, now time.Time) verdict {
	// A site does not recognize yesterday's visitors: the secret of their hash changes
	// at midnight UTC.
	const day = 24 * time.Hour
	if last, ok := p.last[l]; ok && now.Sub(last) < p.dedup && now.Truncate(day).Equal(last.Truncate(day)) {
		return duplicate
	}
	p.last[l] = now
	return counted
}

package main

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// workers is the most requests in progress at once.
const workers = 32

// account is the number of requests sent, with the correct count of them. It is
// safe for concurrent use.
type account struct {
	mu sync.Mutex
	tally
}

type tally struct {
	sent      [kinds]int64
	counted   int64
	duplicate int64
	failed    int64  // no answer, or a status other than 200 or 304: perhaps counted
	burst     string // path of the article in a burst
}

func (t tally) total() int64 {
	n := t.failed
	for _, sent := range t.sent {
		n += sent
	}
	return n
}

func (a *account) book(r request, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !ok {
		a.failed++
		return
	}
	a.sent[r.kind]++
	switch r.verdict {
	case counted:
		a.counted++
	case duplicate:
		a.duplicate++
	}
}

func (a *account) setBurst(path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.burst = path
}

func (a *account) snapshot() tally {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tally
}

func (a *account) expected() totals {
	t := a.snapshot()
	return totals{Views: t.counted, Duplicates: t.duplicate}
}

// send sends p's requests, rate requests a second, until ctx ends. Then it waits
// for requests in progress, so that the account is complete.
func send(ctx context.Context, s *site, p *plan, a *account, rate float64) {
	jobs := make(chan request)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for r := range jobs {
				status, err := s.do(context.WithoutCancel(ctx), r)
				a.book(r, err == nil && (status == http.StatusOK || status == http.StatusNotModified))
			}
		})
	}
	defer wg.Wait()
	defer close(jobs)

	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	start, done := time.Now(), 0.0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		due := rate * time.Since(start).Seconds()
		done = max(done, due-rate) // a slow site need not catch up on more than a second
		for ; done+1 <= due; done++ {
			r := p.next(time.Now())
			a.setBurst(p.bursting())
			select {
			case jobs <- r:
			case <-ctx.Done():
				return // r was not sent, and is in no account
			}
		}
	}
}

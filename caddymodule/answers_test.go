package caddymodule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/hit"
)

// scripted is an aggregator that answers as it is told to, and counts.
type scripted struct {
	mu     sync.Mutex
	asked  int
	answer hit.Answer
	err    error
	takes  time.Duration
}

func (s *scripted) ask(ctx context.Context, _ hit.Query) (*hit.Answer, error) {
	s.mu.Lock()
	s.asked++
	answer, err, takes := s.answer, s.err, s.takes
	s.mu.Unlock()
	select {
	case <-time.After(takes):
		return &answer, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func newScripted() (*scripted, *answers) {
	s := &scripted{answer: hit.Answer{Status: 200, Body: []byte("first"), MaxAgeMillis: 1000}}
	a := newAnswers(func() (*nats.Conn, bool) { return nil, false })
	a.ask = s.ask
	return s, a
}

func TestAnswersAreAskedForOnceInASlice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := newScripted()
		s.takes = 100 * time.Millisecond
		q := hit.Query{Path: "/hot"}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				ans, stale, err := a.get(t.Context(), q)
				if err != nil || stale || string(ans.body) != "first" {
					t.Errorf("got %v, %v, %v", ans, stale, err)
				}
			})
		}
		all.Wait()
		time.Sleep(900 * time.Millisecond) // in the bubble: no time passes
		a.get(t.Context(), q)
		if s.asked != 1 {
			t.Errorf("asked %d times in one slice, want once", s.asked)
		}
		time.Sleep(100 * time.Millisecond)
		s.answer.Body = []byte("second")
		if ans, _, _ := a.get(t.Context(), q); string(ans.body) != "second" || s.asked != 2 {
			t.Errorf("got %q after the slice, asked %d times", ans.body, s.asked)
		}
	})
}

func TestAnswersOutliveTheAggregator(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := newScripted()
		q := hit.Query{Path: "/hot"}
		a.get(t.Context(), q)
		time.Sleep(time.Hour)

		s.err, s.takes = errors.New("away"), time.Hour
		begin := time.Now()
		ans, stale, err := a.get(t.Context(), q)
		if err != nil || !stale || string(ans.body) != "first" {
			t.Fatalf("got %v, %v, %v, want the last answer, stale", ans, stale, err)
		}
		if waited := time.Since(begin); waited != answerTimeout {
			t.Errorf("waited %v for an aggregator that hangs, want %v", waited, answerTimeout)
		}
		begin = time.Now()
		if _, stale, _ := a.get(t.Context(), q); !stale || time.Since(begin) != 0 {
			t.Errorf("the next visitor waited %v, want not at all", time.Since(begin))
		}
		time.Sleep(answerRetry)
		s.err, s.takes = nil, 0
		if _, stale, err := a.get(t.Context(), q); stale || err != nil {
			t.Errorf("got %v, %v once the aggregator is back", stale, err)
		}
	})
}

func TestAnswersWithoutAny(t *testing.T) {
	t.Parallel()
	s, a := newScripted()
	s.err = errors.New("away")
	if _, _, err := a.get(t.Context(), hit.Query{Path: "/hot"}); !errors.Is(err, s.err) {
		t.Errorf("error %v, want %v", err, s.err)
	}
	s.err, s.answer.Status = nil, 500
	if _, _, err := a.get(t.Context(), hit.Query{Path: "/hot"}); err == nil {
		t.Error("the aggregator's failure was taken for an answer")
	}
	if len(a.known) != 0 {
		t.Error("failures take up memory")
	}
}

func TestAnswersGoOnWhenTheFirstVisitorLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := newScripted()
		s.takes = time.Second
		q := hit.Query{Path: "/hot"}
		first, leave := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Go(func() {
			if _, _, err := a.get(first, q); !errors.Is(err, context.Canceled) {
				t.Errorf("the visitor who left got the error %v", err)
			}
		})
		synctest.Wait()
		both.Go(func() {
			if _, _, err := a.get(t.Context(), q); err != nil {
				t.Errorf("the visitor who waits got the error %v", err)
			}
		})
		synctest.Wait()
		leave()
		both.Wait()
		if s.asked != 1 {
			t.Errorf("asked %d times, want once", s.asked)
		}
	})
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	s, a := newScripted()
	s.answer.MaxAgeMillis = 3_600_000
	s.answer.Body = bytes.Repeat([]byte("x"), 1<<20)
	for i := range 3 * answersBytes >> 20 {
		a.get(t.Context(), hit.Query{Path: "/hot", Query: fmt.Sprint("offset=", i)})
		a.get(t.Context(), hit.Query{Path: "/hot"}) // the one everybody asks for
		if a.bytes > answersBytes {
			t.Fatalf("%d bytes after %d questions, want at most %d", a.bytes, i, answersBytes)
		}
	}
	if got, want := len(a.known), a.recent.Len(); got != want || got < 20 {
		t.Errorf("%d answers known and %d in order", got, want)
	}
	if want := 3*answersBytes>>20 + 1; s.asked != want {
		t.Errorf("asked %d times, want %d: the one that everybody asks for was forgotten", s.asked, want)
	}
}

func TestAnswersLimitWhatIsAskedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := newScripted()
		s.takes = time.Second
		var all sync.WaitGroup
		for i := range answersAsking {
			all.Go(func() { a.get(t.Context(), hit.Query{Path: "/hot", Query: fmt.Sprint("offset=", i)}) })
		}
		synctest.Wait()
		if _, _, err := a.get(t.Context(), hit.Query{Path: "/hot"}); !errors.Is(err, errBusy) {
			t.Errorf("error %v, want %v", err, errBusy)
		}
		all.Wait()
		if _, _, err := a.get(t.Context(), hit.Query{Path: "/hot"}); err != nil {
			t.Errorf("error %v once there is room again", err)
		}
	})
}

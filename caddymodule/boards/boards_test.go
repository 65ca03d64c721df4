package boards

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/internal/reading"
)

// scripted is an aggregator with scripted answers, which counts the questions.
type scripted struct {
	mu     sync.Mutex
	asked  int
	answer reading.Answer
	err    error
	takes  time.Duration
}

func (s *scripted) ask(ctx context.Context, _ *reading.Question) (*reading.Answer, error) {
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

// question returns the nth of many questions.
func question(n int) *reading.Question {
	return &reading.Question{Requests: []reading.Request{{Kind: reading.BoardOf, List: "a", Offset: n, At: reading.NoTime}}}
}

func newScripted() (*scripted, *Boards) {
	s := &scripted{answer: reading.Answer{Status: 200, Body: []byte("first"), Holds: time.Second}}
	a := New(func() (*nats.Conn, bool) { return nil, false })
	a.ask = s.ask
	return s, a
}

func TestAnswersAreAskedForOnceInASlice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := newScripted()
		s.takes = 100 * time.Millisecond
		q := question(0)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				ans, _, stale, err := a.Get(t.Context(), q)
				if err != nil || stale || string(ans.Body) != "first" {
					t.Errorf("got %v, %v, %v", ans, stale, err)
				}
			})
		}
		all.Wait()
		time.Sleep(900 * time.Millisecond) // in the bubble: no time passes
		a.Get(t.Context(), q)
		if s.asked != 1 {
			t.Errorf("asked %d times in one slice, want once", s.asked)
		}
		time.Sleep(100 * time.Millisecond)
		s.answer.Body = []byte("second")
		if ans, _, _, _ := a.Get(t.Context(), q); string(ans.Body) != "second" || s.asked != 2 {
			t.Errorf("got %q after the slice, asked %d times", ans.Body, s.asked)
		}
	})
}

func TestAnswersOutliveTheAggregator(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := newScripted()
		q := question(0)
		a.Get(t.Context(), q)
		time.Sleep(time.Hour)

		s.err, s.takes = errors.New("away"), time.Hour
		begin := time.Now()
		ans, _, stale, err := a.Get(t.Context(), q)
		if err != nil || !stale || string(ans.Body) != "first" {
			t.Fatalf("got %v, %v, %v, want the last answer, stale", ans, stale, err)
		}
		if waited := time.Since(begin); waited != askTimeout {
			t.Errorf("waited %v for an aggregator that hangs, want %v", waited, askTimeout)
		}
		begin = time.Now()
		if _, _, stale, _ := a.Get(t.Context(), q); !stale || time.Since(begin) != 0 {
			t.Errorf("the next visitor waited %v, want not at all", time.Since(begin))
		}
		time.Sleep(retryAfter)
		s.err, s.takes = nil, 0
		if _, _, stale, err := a.Get(t.Context(), q); stale || err != nil {
			t.Errorf("got %v, %v once the aggregator is back", stale, err)
		}
	})
}

func TestAnswersWithoutAny(t *testing.T) {
	t.Parallel()
	s, a := newScripted()
	s.err = errors.New("away")
	if _, _, _, err := a.Get(t.Context(), question(0)); !errors.Is(err, s.err) {
		t.Errorf("error %v, want %v", err, s.err)
	}
	s.err, s.answer.Status = nil, 500
	if _, _, _, err := a.Get(t.Context(), question(0)); err == nil {
		t.Error("the aggregator's failure was taken for an answer")
	}
	if a.known.EstimatedSize() != 0 {
		t.Error("failures take up memory")
	}
}

func TestAnswersGoOnWhenTheFirstVisitorLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := newScripted()
		s.takes = time.Second
		q := question(0)
		first, leave := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Go(func() {
			if _, _, _, err := a.Get(first, q); !errors.Is(err, context.Canceled) {
				t.Errorf("the visitor who left got the error %v", err)
			}
		})
		synctest.Wait()
		both.Go(func() {
			if _, _, _, err := a.Get(t.Context(), q); err != nil {
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
	s.answer.Holds = time.Hour
	s.answer.Body = bytes.Repeat([]byte("x"), 1<<20)
	for i := range 3 * maxBytes >> 20 {
		a.Get(t.Context(), question(i+1))
		a.Get(t.Context(), question(0)) // the one everybody asks for
		a.known.CleanUp()               // which otherwise happens beside the requests
		if n := a.known.WeightedSize(); n > maxBytes {
			t.Fatalf("%d bytes after %d questions, want at most %d", n, i, maxBytes)
		}
	}
	if n := a.known.EstimatedSize(); n < 20 {
		t.Errorf("%d answers are known, want 20 or more", n)
	}
	if want := 3*maxBytes>>20 + 1; s.asked != want {
		t.Errorf("asked %d times, want %d: the one that everybody asks for was forgotten", s.asked, want)
	}
}

func TestAnswersLimitWhatIsAskedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, a := newScripted()
		s.takes = time.Second
		var all sync.WaitGroup
		for i := range maxAsking {
			all.Go(func() { a.Get(t.Context(), question(i+1)) })
		}
		synctest.Wait()
		if _, _, _, err := a.Get(t.Context(), question(0)); !errors.Is(err, ErrBusy) {
			t.Errorf("error %v, want %v", err, ErrBusy)
		}
		all.Wait()
		if _, _, _, err := a.Get(t.Context(), question(0)); err != nil {
			t.Errorf("error %v once there is room again", err)
		}
	})
}

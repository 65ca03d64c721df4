package outbox

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// deliver sends everything that the sender wants to send, acknowledged, and
// returns the sequences.
func deliver(s *Sender, now time.Time) (seqs []uint64) {
	for {
		send, ok := s.Next()
		if !ok {
			return seqs
		}
		if !s.Take(send.Last) {
			panic("a sender that is not retired does not send")
		}
		s.Acked(send.Seq, now)
		for seq := send.Seq; seq <= send.Last; seq++ {
			seqs = append(seqs, seq)
		}
	}
}

func wantSeqs(t *testing.T, got []uint64, from, to uint64) {
	t.Helper()
	if uint64(len(got)) != to+1-from {
		t.Fatalf("sent %v, want %d to %d", got, from, to)
	}
	for i, seq := range got {
		if seq != from+uint64(i) {
			t.Fatalf("sent %v, want %d to %d", got, from, to)
		}
	}
}

func TestSenderSendsOneMessageAtATimeInOrder(t *testing.T) {
	t.Parallel()
	s := NewSender(1, 0, Timing{})
	if _, ok := s.Next(); ok {
		t.Fatal("an empty spool has something to send")
	}
	s.Committed(3)
	send, ok := s.Next()
	if !ok || send != (Send{Seq: 1, Last: 3, Low: 1}) {
		t.Fatalf("first: %+v %t", send, ok)
	}
	if !s.Take(2) { // as many as fit
		t.Fatal("it must not be sent")
	}
	if send, ok := s.Next(); ok {
		t.Fatalf("%+v was sent while another is outstanding", send)
	}
	s.Failed(1)
	s.Committed(4)
	if send, _ := s.Next(); send.Seq != 1 || send.Last != 4 {
		t.Fatalf("after an unknown outcome %+v is sent, not 1 again, with those that have come since", send)
	}
	s.Take(3)
	s.Acked(1, t0)
	s.Acked(1, t0) // a second answer changes nothing
	if send, _ := s.Next(); send.Seq != 4 {
		t.Fatalf("then %d", send.Seq)
	}
}

func TestSenderSkipsWhatWasAppliedBeforeARestart(t *testing.T) {
	t.Parallel()
	s := NewSender(3, 9, Timing{})
	if move := s.Applied(7, t0); move != Forward {
		t.Fatalf("move %d", move)
	}
	wantSeqs(t, deliver(s, t0), 8, 9)
}

func TestSenderTrimsOnlyWhatWasAppliedForAWhile(t *testing.T) {
	t.Parallel()
	s := NewSender(1, 0, Timing{Keep: time.Minute})
	s.Committed(10)
	deliver(s, t0)
	at := func(d time.Duration) time.Time { return t0.Add(d) }
	if low := s.Trim(at(time.Hour)); low != 1 {
		t.Fatalf("trimmed to %d although nothing was applied", low)
	}
	s.Applied(4, at(0))
	s.Applied(8, at(30*time.Second))
	if low := s.Trim(at(59 * time.Second)); low != 1 {
		t.Fatalf("trimmed to %d before a minute had passed", low)
	}
	if low := s.Trim(at(60 * time.Second)); low != 5 {
		t.Fatalf("trimmed to %d, want 5", low)
	}
	// The store rolls back to 6: 7 and 8 were not applied for a minute after all.
	if move := s.Applied(6, at(70*time.Second)); move != Back {
		t.Fatalf("move %d", move)
	}
	if low := s.Trim(at(time.Hour)); low != 5 {
		t.Fatalf("trimmed to %d after the store rolled back", low)
	}
}

func TestSenderResendsWhenThePositionStandsStill(t *testing.T) {
	t.Parallel()
	s := NewSender(1, 0, Timing{})
	s.Committed(300)
	wantSeqs(t, deliver(s, t0), 1, 300)
	now := t0
	step := func(d time.Duration, applied uint64) []uint64 {
		now = now.Add(d)
		s.Applied(applied, now)
		return deliver(s, now)
	}
	if got := step(time.Second, 100); got != nil {
		t.Fatalf("progress, but %v was sent again", got)
	}
	if got := step(4*time.Second, 100); got != nil {
		t.Fatalf("4 s without progress, but %v was sent again", got)
	}
	// Silence alone, however long, starts nothing; the answer does. One window.
	now = now.Add(time.Hour)
	if got := deliver(s, now); got != nil {
		t.Fatalf("no answer, but %v was sent again", got)
	}
	wantSeqs(t, step(time.Second, 100), 101, 164)
	// Exactly the window was applied: the log has lost what follows as well.
	wantSeqs(t, step(time.Second, 164), 165, 292)
	// More than the window was applied: nothing was lost.
	if got := step(time.Second, 295); got != nil {
		t.Fatalf("%v was sent again", got)
	}
	// The interval doubles while nothing comes of it.
	wantSeqs(t, step(5*time.Second, 295), 296, 300)
	if got := step(9*time.Second, 295); got != nil {
		t.Fatalf("sent again after 9 s: %v", got)
	}
	wantSeqs(t, step(time.Second, 295), 296, 300)
	for range 10 {
		step(time.Minute, 295)
	}
	wantSeqs(t, step(time.Minute, 295), 296, 300)
}

func TestSenderAfterTheStoreWasEmptied(t *testing.T) {
	t.Parallel()
	s := NewSender(1, 0, Timing{Keep: time.Minute})
	s.Committed(10)
	deliver(s, t0)
	s.Applied(5, t0)
	s.Trim(t0.Add(time.Minute))
	now := t0.Add(2 * time.Minute)
	s.Applied(0, now)
	now = now.Add(5 * time.Second)
	s.Applied(0, now)
	send, ok := s.Next()
	if !ok || send != (Send{Seq: 6, Last: 10, Low: 6, Again: true}) {
		t.Fatalf("sent %+v %t, want the lowest of the spool", send, ok)
	}
}

func TestSenderNoticesACopy(t *testing.T) {
	t.Parallel()
	s := NewSender(1, 5, Timing{})
	s.Committed(9)
	if move := s.Applied(6, t0); move != Ahead {
		t.Fatalf("move %d for a position that was never sent", move)
	}
	if sent := s.Retire(); sent != 5 {
		t.Fatalf("sent up to %d, want 5", sent)
	}
	if s.Take(6) {
		t.Fatal("a retired sender sends what has got another id")
	}
	if move := s.Applied(6, t0); move != Forward {
		t.Fatalf("move %d", move)
	}
	if got := deliver(s, t0); got != nil {
		t.Fatalf("%v was sent by a retired sender whose batches were applied", got)
	}
}

// world is a plain model of a log and of a store that folds it, with the faults
// that both can have, and of the edge's spool.
type world struct {
	now    time.Time
	timing Timing

	sender     *Sender
	first, end uint64 // the spool holds first to end

	log  []logged
	late []logged // sent, on their way, and given up by the edge

	store   stored
	history []stored
}

// logged is a message with the batches seq to last.
type logged struct {
	seq, last, low uint64
	at             time.Time
}

// stored is the state of the store: how far it read the log, and how often it
// counted each batch.
type stored struct {
	at       time.Time
	read     int
	applied  uint64
	counted  map[uint64]int
	declared uint64 // batches declared lost
}

func (s stored) clone() stored {
	c := s
	c.counted = make(map[uint64]int, len(s.counted))
	for k, v := range s.counted {
		c.counted[k] = v
	}
	return c
}

func newWorld() *world {
	w := &world{
		now: t0, timing: Timing{Keep: time.Minute}, first: 1,
		store: stored{at: t0, counted: map[uint64]int{}},
	}
	w.sender = NewSender(1, 0, w.timing)
	w.history = []stored{w.store.clone()}
	return w
}

// fold applies the next n messages of the log by the rule of package fold.
func (w *world) fold(n int) {
	s := &w.store
	for ; n > 0 && s.read < len(w.log); n-- {
		m := w.log[s.read]
		s.read++
		if m.low > s.applied+1 {
			s.declared += m.low - 1 - s.applied
			s.applied = m.low - 1
		}
		for seq := m.seq; seq <= m.last; seq++ {
			if seq == s.applied+1 {
				s.applied = seq
				s.counted[seq]++
			}
		}
	}
	s.at = w.now
	w.history = append(w.history, s.clone())
}

// publish sends a message with at most so many batches.
func (w *world) publish(batches int, stored, acked bool) {
	send, ok := w.sender.Next()
	if !ok {
		return
	}
	last := min(send.Last, send.Seq+uint64(batches)-1)
	if !w.sender.Take(last) {
		panic("a sender that is not retired does not send")
	}
	m := logged{send.Seq, last, send.Low, w.now}
	switch {
	case stored:
		w.log = append(w.log, m)
	case !acked:
		w.late = append(w.late, m)
	}
	if acked && stored {
		w.sender.Acked(send.Seq, w.now)
	} else {
		w.sender.Failed(send.Seq)
	}
}

// The most that the log and the store can lose, together less than Keep.
const modelledLoss = 20 * time.Second

func (w *world) loseTail(d time.Duration) {
	for n := len(w.log); n > 0 && w.now.Sub(w.log[n-1].at) < d; n-- {
		w.log = w.log[:n-1]
	}
	w.store.read = min(w.store.read, len(w.log))
	for i := range w.history { // a copy of the store meets the same log
		w.history[i].read = min(w.history[i].read, len(w.log))
	}
}

func (w *world) rollBack(d time.Duration) {
	n := len(w.history) - 1
	for n > 0 && w.now.Sub(w.history[n-1].at) < d {
		n--
	}
	w.history = w.history[:n+1]
	w.store = w.history[n].clone()
}

func (w *world) check(t *rapid.T) {
	for seq, n := range w.store.counted {
		if n > 1 {
			t.Fatalf("batch %d was counted %d times", seq, n)
		}
	}
	if w.store.declared > 0 {
		t.Fatalf("%d batches were declared lost", w.store.declared)
	}
}

// settle runs the world without faults until everything is applied.
func (w *world) settle(t *rapid.T) {
	for range 600 {
		if w.store.applied == w.end && len(w.store.counted) == int(w.end) {
			return
		}
		for range 200 {
			w.publish(1, true, true)
		}
		w.fold(len(w.log))
		w.now = w.now.Add(time.Second)
		w.sender.Applied(w.store.applied, w.now)
	}
	t.Fatalf("10 minutes without faults: %d of %d batches are applied", w.store.applied, w.end)
}

// TestSenderLosesNothing lets the world go wrong in every way, then lets it come
// right, and looks whether each batch was counted once.
func TestSenderLosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		duration := func(max int) time.Duration {
			return time.Duration(rapid.IntRange(1, max).Draw(t, "milliseconds")) * time.Millisecond
		}
		batches := func(t *rapid.T) int { return rapid.IntRange(1, 5).Draw(t, "batches") }
		t.Repeat(map[string]func(*rapid.T){
			"": w.check,
			"spool": func(t *rapid.T) {
				w.end += uint64(rapid.IntRange(1, 200).Draw(t, "batches"))
				w.sender.Committed(w.end)
			},
			"publish": func(t *rapid.T) {
				for range rapid.IntRange(1, 100).Draw(t, "messages") {
					w.publish(batches(t), true, true)
				}
			},
			"lose the acknowledgement": func(t *rapid.T) { w.publish(batches(t), true, false) },
			"lose the message":         func(t *rapid.T) { w.publish(batches(t), false, true) },
			"delay the message":        func(t *rapid.T) { w.publish(batches(t), false, false) },
			"deliver late": func(*rapid.T) {
				for _, m := range w.late {
					m.at = w.now
					w.log = append(w.log, m)
				}
				w.late = nil
			},
			"fold":   func(t *rapid.T) { w.fold(rapid.IntRange(1, 300).Draw(t, "messages")) },
			"wait":   func(t *rapid.T) { w.now = w.now.Add(duration(15_000)) },
			"answer": func(*rapid.T) { w.sender.Applied(w.store.applied, w.now) },
			"trim": func(t *rapid.T) {
				if low := w.sender.Trim(w.now); rapid.Bool().Draw(t, "deleted") {
					w.first = low
				}
			},
			"restart the edge": func(*rapid.T) { w.sender = NewSender(w.first, w.end, w.timing) },
			"lose the tail of the log": func(t *rapid.T) {
				w.loseTail(min(duration(25_000), modelledLoss))
			},
			"roll the store back": func(t *rapid.T) {
				w.rollBack(min(duration(25_000), modelledLoss))
			},
		})
		w.settle(t)
		w.check(t)
	})
}

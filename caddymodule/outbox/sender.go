package outbox

import "time"

// Timing holds the durations of the delivery protocol.
type Timing struct {
	// Keep is how long a batch stays in the spool after it was first seen
	// applied. It must be longer than the store can roll back and than the log
	// can lose of its tail. Default 1 minute.
	Keep time.Duration
	// Resend is how long the applied position may stand still, below what the
	// log acknowledged, before batches are sent again. Default 5 seconds.
	Resend time.Duration
	// ResendMax bounds Resend, which doubles each time nothing came of it.
	// Default 1 minute.
	ResendMax time.Duration
}

func (t Timing) withDefaults() Timing {
	if t.Keep <= 0 {
		t.Keep = time.Minute
	}
	if t.Resend <= 0 {
		t.Resend = 5 * time.Second
	}
	if t.ResendMax <= 0 {
		t.ResendMax = time.Minute
	}
	return t
}

// resendWindow is how many batches are sent again at first.
const resendWindow = 64

// Sender decides what an edge publishes next for one shard, what it sends
// again and what it may forget. It is a pure state machine: no goroutine, no
// clock, no disk; it is not safe for concurrent use. [Outbox] drives it with
// the real log, a simulator with a modelled one.
//
// The batches of an edge and shard are numbered 1, 2, 3, … The spool holds the
// contiguous range low…last of them. The other side applies batch n only after
// n-1 (or after being told by the Low of a message that n-1 is gone), and skips
// what it has applied. The sender's part, and what goes wrong without it:
//
//   - Only what is on disk is sent ([Sender.Committed]). Else a crash would
//     give its sequence to other hits, which the aggregator would skip as
//     applied: lost.
//   - One message is outstanding, of one or more batches that follow each other.
//     Else n+1 could enter the log before n, and would have to be sent again.
//     While it is on its way others gather, so that a slow log gets few and large
//     messages.
//   - Everything but an acknowledgement means "unknown" ([Sender.Failed]): the
//     same batches go out again under the same sequences, perhaps with others
//     beside them. Else a lost acknowledgement would lose or double the batch.
//   - A batch is kept until it was seen applied for [Timing.Keep], not until it
//     was acknowledged ([Sender.Trim]). Else a log that loses its tail in a
//     power cut, or a store that loses its last seconds in a failover, would
//     lose hits that were acknowledged to visitors.
//   - While the applied position stands still below what was acknowledged,
//     batches are sent again from there, in order ([Sender.Applied]). Else a
//     batch the log lost would hold up every later one for ever.
//   - Only an answer that shows the position standing still starts that, never
//     silence, and it starts with a small window: an aggregator that is away or
//     merely behind has the batches in its log, and sending a whole spool again
//     every minute would bury it. When exactly the window was applied, the
//     window was what was missing, and the next one is twice as large. When
//     more was applied, nothing was missing, and it ends.
//   - The position may go back: the store was restored from an older copy. The
//     log is then read again from there, and what the log no longer has comes
//     through the rule above.
type Sender struct {
	timing Timing

	low, last uint64 // the spool holds low…last; empty when low = last+1
	sent      uint64 // highest sequence that may be in the log
	acked     uint64 // everything up to here was acknowledged once

	outstanding uint64 // first sequence being published; 0: none
	through     uint64 // last sequence being published
	again       bool   // the outstanding ones were acknowledged before

	applied uint64
	heard   bool      // applied was told at least once
	moved   time.Time // when applied last moved, or waiting for it began
	wait    time.Duration
	marks   []mark // when applied positions were first seen, ascending

	from, to uint64 // to be sent again; to = 0: nothing
	window   uint64

	retired bool
}

type mark struct {
	seq uint64
	at  time.Time
}

// Send is the batches Seq to Last, to be published in one message.
type Send struct {
	Seq, Last uint64
	// Low is the lowest sequence that the edge can still send.
	Low uint64
	// Again says that the log had acknowledged the batches before.
	Again bool
}

// Move says how an applied position relates to the one before.
type Move uint8

// The moves of an applied position.
const (
	Same Move = iota
	Forward
	// Back: the store was restored from an older copy.
	Back
	// Ahead: the store has applied batches that this sender never sent, so
	// somebody else has used the same edge id: the spool is an old copy, or a
	// copy of it is in use. The sender's state is unchanged. See [Sender.Retire].
	Ahead
)

// NewSender returns a sender for a spool that holds batches low to last (none
// when low is last+1). All of them may have been sent by an earlier process,
// and none counts as acknowledged.
func NewSender(low, last uint64, timing Timing) *Sender {
	timing = timing.withDefaults()
	return &Sender{
		timing: timing,
		low:    low,
		last:   last,
		sent:   last,
		acked:  low - 1,
		wait:   timing.Resend,
		window: resendWindow,
	}
}

// Committed tells that the spool durably holds everything up to last.
func (s *Sender) Committed(last uint64) {
	s.last = max(s.last, last)
}

// Next returns the batches that can be published now: the message has the first
// of them and as many more as fit, which [Sender.Take] tells. They are
// outstanding from then on. It returns false when some are outstanding already
// or there is nothing to send.
func (s *Sender) Next() (Send, bool) {
	if s.outstanding != 0 {
		return Send{}, false
	}
	if s.to != 0 {
		if s.from = max(s.from, s.applied+1, s.low); s.from <= s.to {
			s.outstanding, s.through, s.again = s.from, 0, true
			return Send{Seq: s.from, Last: s.to, Low: s.low, Again: true}, true
		}
	}
	if s.acked >= s.last {
		return Send{}, false
	}
	s.outstanding, s.through, s.again = s.acked+1, 0, false
	return Send{Seq: s.acked + 1, Last: s.last, Low: s.low}, true
}

// Take tells that the message with the outstanding batches has those up to last.
// It must be called before the message is sent; false means that it must not be
// sent, because the sender was retired meanwhile. Nothing is outstanding then.
func (s *Sender) Take(last uint64) bool {
	if last > s.last {
		s.outstanding = 0
		return false
	}
	s.through = last
	s.sent = max(s.sent, last)
	return true
}

// Acked tells that the log acknowledged the message that begins with seq.
func (s *Sender) Acked(seq uint64, now time.Time) {
	if seq != s.outstanding || seq == 0 {
		return
	}
	s.outstanding = 0
	if s.again {
		s.from = s.through + 1
		s.moved = now
		return
	}
	if s.acked <= s.applied {
		s.moved, s.wait = now, s.timing.Resend // the first one to wait for
	}
	s.acked = max(s.acked, s.through)
}

// Failed tells that it is unknown whether the log has the message that begins
// with seq. Next will return its batches again.
func (s *Sender) Failed(seq uint64) {
	if seq == s.outstanding {
		s.outstanding = 0
	}
}

// Applied tells the highest sequence that is in the counts, as just learned
// from the store.
func (s *Sender) Applied(seq uint64, now time.Time) Move {
	if seq > s.sent {
		if !s.retired {
			return Ahead
		}
		seq = s.sent
	}
	if !s.heard {
		s.heard, s.moved = true, now
	}
	switch {
	case seq > s.applied:
		s.applied = seq
		s.acked = max(s.acked, seq)
		s.moved, s.wait = now, s.timing.Resend
		s.marks = append(s.marks, mark{seq, now})
		switch {
		case s.to == 0:
		case seq == s.to && seq < s.acked:
			s.window *= 2
			s.resend()
		case seq >= s.to:
			s.stopResend()
		}
		return Forward
	case seq < s.applied:
		s.applied = seq
		for n := len(s.marks); n > 0 && s.marks[n-1].seq > seq; n-- {
			s.marks = s.marks[:n-1]
		}
		s.moved, s.wait = now, s.timing.Resend
		s.stopResend()
		return Back
	}
	sending := s.to != 0 && s.from <= s.to
	if !sending && s.acked > s.applied && now.Sub(s.moved) >= s.wait {
		s.wait = min(2*s.wait, s.timing.ResendMax)
		s.moved = now
		s.window = resendWindow
		s.resend()
	}
	return Same
}

// resend marks the next window above the applied position to be sent again.
func (s *Sender) resend() {
	s.from = max(s.applied+1, s.low)
	s.to = min(s.applied+s.window, s.acked)
	s.to = max(s.to, min(s.low+s.window-1, s.acked)) // the store knows less than the spool
	if s.from > s.to {
		s.stopResend() // trimmed: the Low of the next batch will tell
	}
}

func (s *Sender) stopResend() {
	s.from, s.to, s.window = 0, 0, resendWindow
}

// Trim returns the lowest sequence that the spool has to keep. What is below
// may be deleted, at once or later: it will not be sent again.
func (s *Sender) Trim(now time.Time) (low uint64) {
	for len(s.marks) > 0 {
		m := s.marks[0]
		if now.Sub(m.at) < s.timing.Keep || s.outstanding != 0 && m.seq >= s.outstanding {
			break
		}
		s.low = max(s.low, m.seq+1)
		s.marks = s.marks[1:]
	}
	return s.low
}

// Retire ends the sender's life after [Ahead]: nothing above what was sent will
// ever be sent, and a position that is ahead means that all of it was applied.
// It returns the highest sequence sent; the caller takes the batches above it
// elsewhere.
func (s *Sender) Retire() (sent uint64) {
	s.retired = true
	s.last = min(s.last, s.sent)
	return s.sent
}

// Unsent returns how many batches the log never acknowledged to this sender.
func (s *Sender) Unsent() uint64 { return s.last - min(s.acked, s.last) }

// Unapplied returns how many batches of the spool are not known to be applied.
func (s *Sender) Unapplied() uint64 {
	return s.last - min(max(s.applied, s.low-1), s.last)
}

// Kept returns how many batches the spool has to hold.
func (s *Sender) Kept() uint64 { return s.last + 1 - min(s.low, s.last+1) }

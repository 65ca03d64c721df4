package outbox

import "time"

// Timing holds the durations of the delivery protocol.
type Timing struct {
	// Keep is how long a batch stays in the spool after it was first seen
	// applied. It must exceed the time that the store can roll back and the tail
	// that the log can lose. Default: 1 minute.
	Keep time.Duration
	// Resend is how long the applied position may stand still below the
	// acknowledged batches before the edge sends batches again. Default: 5
	// seconds.
	Resend time.Duration
	// ResendMax bounds Resend, which doubles after each attempt without progress.
	// Default: 1 minute.
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

// resendWindow is the initial number of batches that are sent again.
const resendWindow = 64

// Sender decides for one shard which batches an edge publishes next, sends again
// and may forget. It is a pure state machine without goroutines, clock or disk.
// It is not safe for concurrent use. [Outbox] drives it with the real log, a
// simulator with a modelled one.
//
// The batches of an edge and shard are numbered 1, 2, 3, … The spool holds the
// contiguous range low…last of them. The aggregator applies batch n only after
// n-1, or after the Low of a message shows that n-1 is gone, and skips applied
// batches. The sender follows these rules:
//
//   - It sends only batches on disk ([Sender.Committed]). Else a crash would
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
//   - While the applied position stands still below the acknowledged batches,
//     it sends batches again from there, in order ([Sender.Applied]). Else a
//     batch the log lost would hold up every later one for ever.
//   - Only an answer that shows the position standing still starts that, never
//     silence, and it starts with a small window: an aggregator that is away or
//     merely behind has the batches in its log, and sending a whole spool again
//     every minute would bury it. When exactly the window was applied, the
//     window was missing, and the next one is twice as large. When
//     more was applied, nothing was missing, and it ends.
//   - The position may go back: the store was restored from an older copy. The
//     log is then read again from there, and what the log no longer has comes
//     through the rule above.
type Sender struct {
	timing Timing

	low, last uint64 // the spool holds low…last; empty when low = last+1
	sent      uint64 // highest sequence that may be in the log
	acked     uint64 // highest sequence up to which everything was acknowledged once

	outstanding uint64 // first sequence being published; 0: none
	through     uint64 // last sequence being published
	again       bool   // the log had acknowledged the outstanding ones before

	applied uint64
	heard   bool      // an applied position has arrived
	moved   time.Time // last move of applied, or beginning of the wait for it
	wait    time.Duration
	marks   []mark // first sightings of applied positions, ascending

	from, to uint64 // to send again; to = 0: nothing
	window   uint64

	retired bool
}

type mark struct {
	seq uint64
	at  time.Time
}

// Send describes the batches Seq to Last, to be published in one message.
type Send struct {
	Seq, Last uint64
	// Low is the lowest sequence that the edge can still send.
	Low uint64
	// Again reports that the log had acknowledged the batches before.
	Again bool
}

// Move relates an applied position to the previous one.
type Move uint8

// The moves of an applied position.
const (
	Same Move = iota
	Forward
	// Back: the store was restored from an older copy.
	Back
	// Ahead: the store has applied batches that this sender never sent, so
	// another process has used the same edge id: the spool is an old copy, or a
	// copy of it is in use. The sender's state is unchanged. See [Sender.Retire].
	Ahead
)

// NewSender returns a sender for a spool that holds batches low to last (none if
// low is last+1). An earlier process may have sent any of them, and none counts
// as acknowledged.
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

// Committed reports to the sender that the spool durably holds everything up to
// last.
func (s *Sender) Committed(last uint64) {
	s.last = max(s.last, last)
}

// Next returns the batches that can be published now: the message contains the
// first of them and as many more as fit; the caller reports these with
// [Sender.Take]. They are outstanding from then on. Next returns false if batches
// are already outstanding or there is nothing to send.
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

// Take records that the message with the outstanding batches contains those up to
// last. Call it before sending the message. It returns false if the sender was
// retired meanwhile: then do not send the message; nothing is outstanding.
func (s *Sender) Take(last uint64) bool {
	if last > s.last {
		s.outstanding = 0
		return false
	}
	s.through = last
	s.sent = max(s.sent, last)
	return true
}

// Acked records that the log acknowledged the message that begins with seq.
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

// Failed records that the log may or may not have the message that begins with
// seq. Next will return its batches again.
func (s *Sender) Failed(seq uint64) {
	if seq == s.outstanding {
		s.outstanding = 0
	}
}

// Applied records the highest applied sequence, as just learned from the store.
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
	s.to = max(s.to, min(s.low+s.window-1, s.acked)) // the store may be behind the spool's low
	if s.from > s.to {
		s.stopResend() // trimmed: the Low of the next batch tells the aggregator
	}
}

func (s *Sender) stopResend() {
	s.from, s.to, s.window = 0, 0, resendWindow
}

// Trim returns the lowest sequence that the spool must keep. Lower batches may be
// deleted at any time: the sender will not send them again.
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

// Retire ends the sender's life after [Ahead]: it will send nothing above the
// batches already sent, and a position ahead of them means that all of them were
// applied. It returns the highest sequence sent; the caller moves the batches
// above it to another id.
func (s *Sender) Retire() (sent uint64) {
	s.retired = true
	s.last = min(s.last, s.sent)
	return s.sent
}

// Unsent returns the number of batches that the log never acknowledged to this
// sender.
func (s *Sender) Unsent() uint64 { return s.last - min(s.acked, s.last) }

// Unapplied returns the number of batches in the spool that are not known to be
// applied.
func (s *Sender) Unapplied() uint64 {
	return s.last - min(max(s.applied, s.low-1), s.last)
}

// Kept returns the number of batches that the spool must hold.
func (s *Sender) Kept() uint64 { return s.last + 1 - min(s.low, s.last+1) }

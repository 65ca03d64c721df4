package outbox

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
)

// backlog describes the batches of one edge id that are not known to be applied.
type backlog struct {
	batches, unsent uint64
	// oldest is the age in the spool of the oldest. While no aggregator has
	// answered this process, it is at most the age of the process: the batches of
	// processes before it may be applied long ago.
	oldest time.Duration
}

// backlogs returns the backlog of every edge id in the spool. It reads the time
// of one batch for each shard with a backlog.
func (o *Outbox) backlogs() map[string]backlog {
	type head struct {
		lane  *lane
		seq   uint64
		heard bool
	}
	var heads []head
	all := map[string]backlog{}
	o.mu.Lock()
	for _, l := range o.lanes {
		b, n := all[l.edge], l.sender.Unapplied()
		b.batches += n
		b.unsent += l.sender.Unsent()
		all[l.edge] = b
		if n > 0 {
			heads = append(heads, head{l, l.sender.last - n + 1, l.sender.heard})
		}
	}
	o.mu.Unlock()
	for _, h := range heads {
		if at, ok := o.spool.spooled(h.lane.laneID, h.seq); ok {
			age := time.Since(at)
			if !h.heard {
				age = min(age, time.Since(o.began))
			}
			b := all[h.lane.edge]
			b.oldest = max(b.oldest, age)
			all[h.lane.edge] = b
		}
	}
	return all
}

// judge raises and clears the faults of a run. Only watch calls it.
func (r *run) judge() {
	set := func(kind faults.Kind, message string) {
		if message == "" {
			r.o.opts.Faults.Clear(kind, faults.Whole)
		} else {
			r.o.opts.Faults.Set(kind, faults.Whole, message)
		}
	}
	err := r.publishTrouble.lasting()
	away := ""
	switch down := r.bus.Connected(); {
	case down == nil:
		r.connected = time.Now()
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			away = err.Error() // an aggregator creates the stream
		}
		set(faults.LogAway, away)
	case time.Since(r.connected) >= busGrace:
		away = down.Error() + "; hits wait on disk"
		set(faults.LogAway, away)
	}
	shards := ""
	if err := r.publishTrouble.err(); errors.Is(err, ErrShards) {
		shards = err.Error()
	}
	set(faults.LogShards, shards)
	set(faults.LogRefuses, r.refused())
	set(faults.Behind, r.behind(err))
}

// behind describes a backlog that is too old, with the known cause, or returns ""
// if there is none.
func (r *run) behind(publish error) string {
	var all backlog
	for _, b := range r.o.backlogs() {
		all.batches += b.batches
		all.unsent += b.unsent
		all.oldest = max(all.oldest, b.oldest)
	}
	if all.oldest < r.o.opts.BehindAfter {
		return ""
	}
	reason := fmt.Sprintf("%d of them are not in the log yet", all.unsent)
	if publish != nil {
		reason = "publishing fails: " + publish.Error()
	} else if err := r.appliedTrouble.lasting(); err != nil {
		reason = err.Error()
	} else if all.unsent == 0 {
		reason = "the log has acknowledged them, but they are not applied: see /-/ready of the aggregators"
	}
	return fmt.Sprintf("%d batches wait to be counted, the oldest for %s: %s", all.batches, all.oldest.Round(time.Second), reason)
}

// refused describes why a reachable log refuses messages, and the remedy. It
// returns "" if the log accepts messages.
func (r *run) refused() string {
	err := r.publishTrouble.lasting()
	for _, other := range []error{nil, ErrShards, errNoConnection, errMissing, errUnreadable, errRetired, ErrNoDocument, jetstream.ErrStreamNotFound} {
		if errors.Is(err, other) {
			return ""
		}
	}
	if r.bus.Connected() != nil {
		return ""
	}
	text := err.Error()
	remedy := "check the log and the disk of NATS; if its disk was full, make room and restart nats-server: " +
		"JetStream keeps a write error until it is restarted (the embedded one restarts by itself)"
	if strings.Contains(text, "maximum bytes exceeded") {
		remedy = "the log is full of hits that are not counted yet: see /-/ready of the aggregators, or raise nats.max_bytes"
	}
	text = text[:min(len(text), hit.MaxRefused-len(remedy)-2)]
	return strings.ToValidUTF8(text, "") + "; " + remedy
}

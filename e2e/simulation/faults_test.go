package simulation

import "time"

// The promise for a store that goes back, or a log that loses acknowledged
// messages, rests on the edges, which keep a batch for a while after it was
// applied. It holds for both at once, as in a power cut, and for repeated damage to
// one of them; but not for one and then the other within that time: the protocol
// then reports the losses. The promise for the hits of a lost edge rests on the
// log.

// hurtLog removes the log's tail, or all of it, like a recreated stream.
func (w *world) hurtLog() {
	if !w.forgetful && !w.healed(w.storeHurt) || w.gone() {
		return
	}
	if w.forgetful && w.rng.IntN(3) == 0 { // retention
		n := w.rng.IntN(len(w.log.msgs) + 1)
		w.log.msgs = w.log.msgs[n:]
		w.faults["log trimmed"]++
		return
	}
	w.cutLog()
}

// hurtStore takes the store back by a short time, for good or for a moment: a
// lagging replica answers, and then the right server again.
func (w *world) hurtStore() {
	if !w.forgetful && !w.healed(w.logHurt) {
		return
	}
	if w.forgetful && w.rng.IntN(3) == 0 {
		w.restore(w.snaps[0]) // however old
		w.faults["store restored from a backup"]++
		return
	}
	s := w.snaps[w.rng.IntN(len(w.snaps))]
	switch {
	case w.now.Sub(s.at) > keep:
	case w.rng.IntN(2) == 0:
		w.restore(s)
		w.faults["store rolled back"]++
	default:
		newest := snapshot{w.now, w.store.Snapshot()}
		w.restore(s)
		for range 1 + w.rng.IntN(3) {
			w.fold(w.aggs[w.rng.IntN(len(w.aggs))], true)
		}
		w.restore(newest)
		w.faults["store asked where it lags behind"]++
	}
}

// powerCut takes both back.
func (w *world) powerCut() {
	s := w.snaps[w.rng.IntN(len(w.snaps))]
	if !w.healed(w.logHurt) || !w.healed(w.storeHurt) || w.gone() || w.now.Sub(s.at) > keep {
		return
	}
	w.cutLog()
	w.restore(s)
	w.faults["power cut"]++
}

// healed reports whether damage at then is long ago, or never happened.
func (w *world) healed(hurt time.Time) bool { return hurt.IsZero() || w.now.Sub(hurt) >= 3*keep }

func (w *world) restore(s snapshot) {
	w.store.Restore(s.data)
	w.storeHurt = w.now
}

// cutLog removes the log's last messages, or all of them. Connections are lost,
// which makes all clients check the log again.
func (w *world) cutLog() {
	if w.rng.IntN(3) == 0 {
		w.log = &logModel{next: 1}
		w.faults["stream created anew"]++
	} else {
		cut := w.now.Add(-time.Duration(w.rng.Int64N(int64(keep))))
		for n := len(w.log.msgs); n > 0 && w.log.msgs[n-1].Received.After(cut); n-- {
			w.log.next = w.log.msgs[n-1].Seq
			w.log.msgs = w.log.msgs[:n-1]
		}
		w.faults["log tail lost"]++
	}
	w.logHurt = w.now
	if w.rng.IntN(2) == 0 { // the log goes on before anyone checks
		w.away = w.rng.IntN(30)
	}
	for _, a := range w.aggs {
		if w.rng.IntN(2) == 0 || a.ready == nil {
			a.loaded = false
		} else { // its commit is already on the way
			a.relook = true
		}
	}
}

// gone reports whether an edge is lost for good.
func (w *world) gone() bool {
	for _, e := range w.edges {
		if e.gone {
			return true
		}
	}
	return false
}

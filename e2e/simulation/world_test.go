// Package simulation runs the delivery protocol of edge, log and store against
// seeded faults. The edge's [outbox.Sender], the aggregator's [fold.Folder] and the
// commit rule are the real ones; the edge's disk, the log and the network are
// models, so that a hundred thousand histories fit into a test run.
package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

const (
	keep  = time.Minute // of the edges
	steps = 150         // of a history, before it settles
)

var (
	ctx   = context.Background()
	epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
)

// design removes rules from the protocol, to check that the simulation notices; see
// [rules].
type design struct {
	ackBeforeDisk   bool // batches are acknowledged one batch before they are on disk
	noNumbers       bool // every batch counts as a new one
	renumber        bool // batches without an acknowledgement go out again under new numbers
	noKeep          bool // an edge drops batches as soon as they are applied
	noResend        bool
	noPositionCheck bool
	unnamedReads    bool
	noVersion       bool
	noFingerprint   bool // positions are only compared with the length of the log
	noLow           bool
	noMemos         bool
	setAsideNewer   bool // batches of a newer version are skipped
	onlyOwnRules    bool // an aggregator judges every hit by the newest revision
	skipUnread      bool // batches whose rules cannot be read are skipped
	// changingRules lets edges and aggregators have different rules all the time.
	changingRules bool
	// oneVersion upgrades nobody. An upgraded aggregator reads batches in another
	// place of the log than one that had to wait for them.
	oneVersion bool
	undamaged  bool // neither log nor store ever goes back
	// forgetful is a log with a short retention, and stores that come back empty: hits
	// may be lost then, but only with a report.
	forgetful bool
}

// world is one history.
type world struct {
	design
	rng   *rand.Rand
	now   time.Time
	rules *ruleset.Rules
	// changes are the rules if they change; else nil.
	changes *changes

	edges []*edge
	log   *logModel
	late  []late
	store *memstore.Store
	snaps []snapshot
	aggs  []*aggregator

	// upgrades lets edges and aggregators change to a newer version, and back, when
	// they start.
	upgrades bool
	mourning int // the step in which an edge is lost for good; -1: none
	away     int // for so many more steps no aggregator runs

	// The last time at which the log, or the store, lost something.
	logHurt, storeHurt time.Time
	faults             map[string]int
}

type snapshot struct {
	at   time.Time
	data *memstore.Snapshot
}

func newWorld(seed uint64, d design) *world {
	w := &world{
		design:   d,
		rng:      rand.New(rand.NewPCG(seed, 1)),
		now:      epoch,
		rules:    newRules(),
		log:      &logModel{next: 1},
		store:    memstore.New(1),
		aggs:     []*aggregator{{}, {}},
		mourning: -1,
		faults:   map[string]int{},
	}
	if w.changingRules {
		w.changes = newChanges(seed)
	}
	switch w.rng.IntN(4) {
	case 0:
		w.upgrades = !w.oneVersion
	case 1:
		// The promise for a lost edge rests on the log alone.
		if !w.forgetful {
			w.mourning = w.rng.IntN(steps)
		}
	}
	for i := range 2 {
		e := &edge{id: fmt.Sprint("edge", i), spool: map[uint64]*hit.Batch{}, low: 1, rules: someRules, batchOf: map[string]uint64{}}
		if w.changes != nil {
			e.rules = w.changes.documents[0]
		}
		w.start(e)
		w.edges = append(w.edges, e)
	}
	w.snap()
	return w
}

// applied returns the highest batch of an edge in the counts.
func (w *world) applied(e *edge) uint64 {
	applied, err := w.store.Applied(ctx, e.id)
	if err != nil {
		panic(err)
	}
	return applied[0]
}

func (w *world) position() store.Position {
	p, err := w.store.Position(ctx, 0)
	if err != nil {
		panic(err)
	}
	return p
}

// upgraded decides about a process that starts.
func (w *world) upgraded() bool { return w.upgrades && w.rng.IntN(2) == 0 }

func (w *world) snap() {
	w.snaps = append(w.snaps, snapshot{w.now, w.store.Snapshot()})
	if len(w.snaps) > 8 {
		w.snaps = w.snaps[1:]
	}
}

package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/fold"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/ruleset"
)

// Bounds of the work of reporting verdicts to edges.
const (
	outcomesWaiting = 100_000 // verdicts and used-up keys
	foldsWaiting    = 1024
	// outcomesAtOnce fit into one message: none takes 256 bytes, and the limit is that
	// of a message of hits.
	outcomesAtOnce = hit.MaxBatchBytes / 256
	// ranksAtOnce bounds the items of a list that are ranked after one fold.
	ranksAtOnce  = 256
	ranksTimeout = 2 * time.Second
)

// outcomes reports verdicts on votes to edges. Counting never waits for it: it
// drops reports when it falls behind, which changes no count. An edge then accepts
// some more votes that the aggregator refuses, or a voter sees no rank.
type outcomes struct {
	boards  *board.Boards
	conn    *nats.Conn
	log     *slog.Logger
	metrics *metrics

	folds   chan *fold.Result
	waiting atomic.Int64 // verdicts and used-up keys in folds
}

func newOutcomes(boards *board.Boards, o *Options, m *metrics) *outcomes {
	return &outcomes{boards: boards, conn: o.Conn, log: o.Logger, metrics: m, folds: make(chan *fold.Result, foldsWaiting)}
}

func size(res *fold.Result) int64 { return int64(len(res.Verdicts) + len(res.Used)) }

// committed takes in a committed fold.
func (o *outcomes) committed(res *fold.Result) {
	n := size(res)
	if n == 0 {
		return
	}
	if o.waiting.Add(n) <= outcomesWaiting {
		select {
		case o.folds <- res:
			return
		default:
		}
	}
	o.waiting.Add(-n)
	o.metrics.outcomes.WithLabelValues("dropped").Add(float64(n))
}

// run reports to edges until folds is closed. Once ctx is done it reads nothing
// more from the store.
func (o *outcomes) run(ctx context.Context) {
	for res := range o.folds {
		o.tell(ctx, res)
		o.waiting.Add(-size(res))
	}
}

func (o *outcomes) tell(ctx context.Context, res *fold.Result) {
	for used := range slices.Chunk(res.Used, outcomesAtOnce) { // first: it needs no reading
		o.publish(&hit.Outcomes{Used: used}, len(used))
	}
	if len(res.Verdicts) == 0 {
		return
	}
	standings := o.standings(ctx, res.Verdicts)
	votes := make([]hit.VoteOutcome, len(res.Verdicts))
	for i, v := range res.Verdicts {
		votes[i] = hit.VoteOutcome{Confirm: v.Confirm, Reason: string(v.Reason), Limit: v.Limit}
		if s := standings[listItem{v.List, v.Item}]; s != nil {
			votes[i].Score, votes[i].Rank = s.Score, s.Rank
		}
	}
	for votes := range slices.Chunk(votes, outcomesAtOnce) {
		o.publish(&hit.Outcomes{Votes: votes}, len(votes))
	}
}

type listItem struct{ list, item string }

// standings returns the standings of the items that got votes on the board of all
// time. It omits those that it cannot read.
func (o *outcomes) standings(ctx context.Context, verdicts []fold.Verdict) map[listItem]*board.Standing {
	standings := map[listItem]*board.Standing{}
	if o.waiting.Load() > outcomesWaiting/2 {
		return standings // too far behind
	}
	items := map[string][]string{}
	for _, v := range verdicts {
		switch v.Reason {
		case ruleset.Counted, ruleset.Duplicate, ruleset.OverQuota:
		default:
			continue // it may not be an item of the list
		}
		k := listItem{v.List, v.Item}
		if _, ok := standings[k]; !ok && len(items[v.List]) < ranksAtOnce {
			standings[k] = nil
			items[v.List] = append(items[v.List], v.Item)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, ranksTimeout)
	defer cancel()
	for list, ids := range items {
		found, err := o.boards.Standings(ctx, list, ids)
		if err != nil {
			o.log.Debug("verdicts on votes go out without ranks", "list", list, "error", err)
			continue
		}
		for i, s := range found {
			standings[listItem{list, ids[i]}] = s
		}
	}
	return standings
}

func (o *outcomes) publish(v *hit.Outcomes, n int) {
	data, err := json.Marshal(v)
	if err == nil {
		err = o.conn.Publish(hit.SubjectOutcomes, data)
	}
	result := "published"
	if err != nil {
		result = "failed"
		o.log.Debug("publishing verdicts on votes", "error", err)
	}
	o.metrics.outcomes.WithLabelValues(result).Add(float64(n))
}

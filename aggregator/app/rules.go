package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/internal/revisions"
	"github.com/hotboard/hotboard/ruleset"
)

const (
	// rulesEvery is the interval between two looks at the rules in force.
	rulesEvery = time.Second
	// announceAgain is the time after which a revision that is not in force in a shard
	// is announced there again: the log may have lost the message.
	announceAgain = time.Minute
	// reportsFresh is how long an edge's report of its rules holds. An edge reports
	// every few seconds while its spool holds batches, and not at all while it accepts
	// nothing: then it may have other rules by now, or be gone.
	reportsFresh = 30 * time.Second
	// edgeForget is how long an edge is remembered after its last report.
	edgeForget = 5 * time.Minute
)

// errNoRules is the answer before any rules are known.
var errNoRules = errors.New("the aggregator does not know any rules yet")

// inForce puts the rules of the installation in force: it publishes one new revision
// after the other into the log of each shard, and chooses the rules that answers are made
// by.
type inForce struct {
	app    *App
	js     jetstream.JetStream
	trying *faults.Repeated
	wake   chan struct{} // after a change

	announced map[int]announcement // by shard, the last one

	mu    sync.Mutex
	edges map[string]edgeRules
}

// announcement is a revision that was published into the log of a shard.
type announcement struct {
	number uint64
	at     time.Time
}

// edgeRules are the rules that an edge accepts hits under.
type edgeRules struct {
	id      hit.RulesID
	heard   time.Time
	differs time.Time // since when they have not been those of the current revision
}

func newInForce(a *App) (*inForce, error) {
	js, err := jetstream.New(a.opts.Conn)
	if err != nil {
		return nil, fmt.Errorf("using JetStream: %w", err)
	}
	return &inForce{
		app: a, js: js, wake: make(chan struct{}, 1), announced: map[int]announcement{}, edges: map[string]edgeRules{},
		trying: faults.NewRepeated(a.opts.Logger, slog.LevelWarn, "the rules cannot be put in force yet"),
	}, nil
}

// changed is called with each new current revision.
func (f *inForce) changed(r revisions.Revision, _ *ruleset.Rules) {
	f.app.opts.Logger.Info("the rules have a new revision", "number", r.Number, "rules", r.Rules, "authority", r.Authority, "by", r.By, "from", r.From)
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run works until ctx is done.
func (f *inForce) run(ctx context.Context) {
	tick := time.NewTicker(rulesEvery)
	defer tick.Stop()
	for {
		if err := f.look(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, revisions.ErrNoConnection) {
			f.trying.Log("error", err)
		}
		f.judge(ctx)
		select {
		case <-tick.C:
		case <-f.wake:
		case <-ctx.Done():
			return
		}
	}
}

// look chooses the rules for answers, and announces the next revision to the shards
// of this aggregator that have the oldest one in force.
func (f *inForce) look(ctx context.Context) error {
	a := f.app
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	current, rules := a.keeper.Current()
	shards, err := a.opts.Store.InForce(ctx)
	if err != nil {
		if a.rules.Load() == nil && rules != nil {
			a.use(rules)
		}
		return nil // the store has a fault of its own
	}
	oldest := slices.MinFunc(shards, func(a, b store.InForce) int { return cmp.Compare(a.Revision, b.Revision) })
	for _, s := range shards {
		a.book.AtLeast(s.Revision)
		if s.Revision == current.Number && s.ID != current.Rules {
			// The broker had lost the bucket, and the numbers began anew while no aggregator
			// ran. With a higher number the current rules come into force.
			a.book.AtLeast(s.Revision + 1)
		}
	}
	if oldest.Revision > 0 { // until all shards have a newer one, its live list is not complete
		rules, err = a.book.Rules(ctx, oldest.ID)
	}
	if rules != nil {
		a.use(rules)
	}
	if oldest.Revision < current.Number {
		next, nextErr := f.after(ctx, oldest, current)
		err = errors.Join(err, nextErr)
		for shard, s := range shards {
			if nextErr == nil && s.Revision == oldest.Revision && a.ingest.Owns(shard) {
				err = errors.Join(err, f.announce(ctx, shard, next))
			}
		}
	}
	return err
}

// after returns the revision to put in force in the shards that have the oldest
// one: the next one, so that no shard is more than one revision ahead of another.
// Answers use the oldest, and a shard keeps the sums of only one revision before
// its own.
func (f *inForce) after(ctx context.Context, oldest store.InForce, current revisions.Revision) (revisions.Revision, error) {
	if oldest.Revision == 0 { // answers do not use it
		return current, nil
	}
	all, err := f.app.book.Revisions(ctx)
	if err != nil {
		return current, err
	}
	for _, r := range all {
		if r.Number > oldest.Revision && r.Number < current.Number {
			if _, err := f.app.book.Rules(ctx, r.Rules); err == nil { // else the shards would wait for its document
				return r, nil
			}
		}
	}
	return current, nil
}

// announce publishes a revision into the log of a shard, so that it comes into force
// there.
func (f *inForce) announce(ctx context.Context, shard int, r revisions.Revision) error {
	if last := f.announced[shard]; last.number == r.Number && time.Since(last.at) < announceAgain {
		return nil
	}
	msg := nats.NewMsg(hit.Subject(shard, hit.RulesSender))
	msg.Header.Set(hit.HeaderRevision, strconv.FormatUint(r.Number, 10))
	msg.Header.Set(hit.HeaderRules, r.Rules.String())
	if _, err := f.js.PublishMsg(ctx, msg, jetstream.WithMsgID(fmt.Sprintf("rules-%d-%d", shard, r.Number))); err != nil {
		return fmt.Errorf("announcing revision %d to shard %d: %w", r.Number, shard, err)
	}
	f.announced[shard] = announcement{r.Number, time.Now()}
	return nil
}

// use makes rules those that answers are made by.
func (a *App) use(r *ruleset.Rules) {
	if a.rules.Swap(r) == r {
		return
	}
	a.api.Forget()
	a.metrics.loaded.SetToCurrentTime()
	a.opts.Logger.Info("answers use new rules", "lists", len(r.Lists))
}

// heard takes in the report of an edge.
func (f *inForce) heard(w hit.Waiting) {
	if w.Rules.IsZero() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e, known := f.edges[w.Edge]
	if !known && len(f.edges) >= waitingEdges {
		return
	}
	e.id, e.heard = w.Rules, time.Now()
	f.edges[w.Edge] = e
}

// judge raises a fault while an edge accepts hits under other rules than those of
// the current revision.
func (f *inForce) judge(ctx context.Context) {
	current, rules := f.app.keeper.Current()
	if rules == nil {
		return
	}
	f.mu.Lock()
	var worst edgeRules
	var edge string
	others := 0
	for name, e := range f.edges {
		switch {
		case time.Since(e.heard) >= edgeForget:
			delete(f.edges, name)
			continue
		case e.id == current.Rules:
			e.differs = time.Time{}
		case e.differs.IsZero():
			e.differs = time.Now()
		case e.heard.Sub(e.differs) >= f.app.opts.RulesDifferAfter && time.Since(e.heard) < reportsFresh:
			others++
			if edge == "" || e.differs.Before(worst.differs) {
				edge, worst = name, e
			}
		}
		f.edges[name] = e
	}
	f.mu.Unlock()
	if edge == "" {
		f.app.faults.Clear(faults.RulesDiffer, faults.Edges)
		return
	}
	if others--; others > 0 {
		edge += fmt.Sprintf(" (and %d other edges)", others)
	}
	differences := ""
	if theirs, err := f.app.book.Rules(ctx, worst.id); err == nil {
		differences = revisions.Differences(rules, theirs)
	}
	f.app.faults.Set(faults.RulesDiffer, faults.Edges, fmt.Sprintf(
		"edge %s accepts hits under other rules (%s) than those of %s%s. Its hits count by its own rules. Reload it with the wanted rules, or remove its rules so that it follows",
		edge, worst.id.Short(), current, differences))
}

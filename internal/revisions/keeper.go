package revisions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hotboard/hotboard/hit"
	"github.com/hotboard/hotboard/internal/faults"
	"github.com/hotboard/hotboard/ruleset"
)

const (
	// pollEvery is how often a Keeper looks. A watcher of NATS would need a look now
	// and then as well: it does not notice that its bucket is gone.
	pollEvery = 500 * time.Millisecond
	// firstEvery replaces pollEvery until a Keeper knows any rules.
	firstEvery = 100 * time.Millisecond
	// restoreEvery is how often a Keeper checks that the bucket has the documents.
	restoreEvery = time.Minute
	// DiffersAfter is how long a process may have other rules than the installation
	// before that is a fault. Reloads of many edges take some time.
	DiffersAfter = time.Minute
	// unknownAfter is how long a process may lack rules after its start.
	unknownAfter = 10 * time.Second
)

// KeeperOptions configures a Keeper.
type KeeperOptions struct {
	Book *Book
	// Authority and By name this process when it proposes rules.
	Authority Authority
	By        string
	// Changed, if set, is called with each current revision and its rules, one call
	// at a time.
	Changed func(Revision, *ruleset.Rules)
	// Known means that the process has rules from an earlier run, so that it works
	// without any from the broker.
	Known bool
	// Faults receives rules_differ and rules_unknown.
	Faults *faults.Registry
	Logger *slog.Logger
	// DiffersAfter replaces the constant of that name.
	DiffersAfter time.Duration
}

// Keeper keeps a process in step with the rules of the installation. It reports the
// current revision, proposes the rules that the process carries, if any, and brings
// back what the bucket has lost. It is safe for concurrent use.
type Keeper struct {
	o        KeeperOptions
	trouble  *faults.Repeated
	round    sync.Mutex // held by Look, for the fields up to mu
	began    time.Time
	restored time.Time
	failing  time.Time // since when it cannot read or propose
	judged   *carried  // the rules that were proposed last

	mu       sync.Mutex
	own      *carried // nil: follow
	current  Revision
	rules    *ruleset.Rules // of current; nil before there is any
	differs  time.Time
	wake     chan struct{}
	agreedTo uint64 // the revision that own agrees with, or 0
}

// carried are rules that the process has from its configuration.
type carried struct {
	rules  *ruleset.Rules
	id     hit.RulesID
	from   string
	agreed uint64 // as for [Book.Propose]
}

// NewKeeper returns a Keeper that does nothing until Run.
func NewKeeper(o KeeperOptions) *Keeper {
	if o.DiffersAfter == 0 {
		o.DiffersAfter = DiffersAfter
	}
	return &Keeper{
		o: o, wake: make(chan struct{}, 1),
		trouble: faults.NewRepeated(o.Logger, slog.LevelWarn, "the rules of the installation cannot be read or proposed"),
	}
}

// Carry sets the rules that the process has from its configuration, and where they
// come from; nil if it has none and follows. A later call is a reload.
func (k *Keeper) Carry(r *ruleset.Rules, from string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	agreed := k.agreedTo
	switch {
	case r == nil:
		k.own, k.differs = nil, time.Time{}
	case k.own != nil && k.own.id == r.ID():
		return // the same rules: not a wish for a change
	default:
		if k.own != nil && agreed == 0 {
			agreed = k.own.agreed // reloaded twice before the first proposal
		}
		k.own = &carried{rules: r, id: r.ID(), from: from, agreed: agreed}
		k.o.Book.Remember(r)
	}
	k.agreedTo = 0
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Current returns the current revision, as far as this process knows, and its
// rules; nil before it knows any.
func (k *Keeper) Current() (Revision, *ruleset.Rules) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current, k.rules
}

// Run works until ctx is done.
func (k *Keeper) Run(ctx context.Context) {
	for {
		k.Look(ctx)
		wait := k.o.Book.poll
		if _, known := k.Current(); known == nil {
			wait = min(wait, firstEvery)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-k.wake:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// Look does one round of Run, so that a caller need not wait for the next one.
func (k *Keeper) Look(ctx context.Context) {
	k.round.Lock()
	defer k.round.Unlock()
	if k.began.IsZero() {
		k.began = time.Now()
	}
	if err := k.step(ctx); ctx.Err() == nil {
		k.report(err)
	}
}

// Differs fails with [ErrConflict] if the current revision has other rules than
// those that the process carries.
func (k *Keeper) Differs() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.own == nil || k.differs.IsZero() {
		return nil
	}
	return fmt.Errorf("%w: %s stays in force", ErrConflict, k.current)
}

func (k *Keeper) step(ctx context.Context) error {
	k.mu.Lock()
	own, was := k.own, k.current
	k.mu.Unlock()
	book := k.o.Book
	now, err := book.Current(ctx)
	lost := errors.Is(err, ErrNoRevision)
	if err != nil && !lost {
		return err
	}
	if lost || time.Since(k.restored) >= restoreEvery {
		if err := book.Restore(ctx); err != nil {
			return err
		}
		k.restored = time.Now()
	}
	if now.Number < book.seen() {
		if now, err = k.bringBack(ctx, now, was); err != nil {
			return err
		}
	}
	if own != nil && (now.Number == 0 || own != k.judged || !now.same(was)) {
		var agreed bool
		if now, agreed, err = book.Propose(ctx, own.rules, Source{k.o.Authority, k.o.By, own.from}, own.agreed); err != nil {
			return err
		}
		k.agree(own, now, agreed)
		k.judged = own
	}
	if now.Number == 0 {
		return ErrNoRevision
	}
	if now.same(was) {
		return nil
	}
	r, err := book.Rules(ctx, now.Rules)
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.current, k.rules = now, r
	k.mu.Unlock()
	if k.o.Changed != nil {
		k.o.Changed(now, r)
	}
	return nil
}

// bringBack adds the newest revision that the process knows again, after the bucket
// has lost it. The new one has a higher number, because shards that have the old
// one in force ignore lower ones.
func (k *Keeper) bringBack(ctx context.Context, now, was Revision) (Revision, error) {
	r := now
	if was.Number > now.Number {
		r = was
	}
	if r.Number == 0 {
		return now, nil
	}
	added, err := k.o.Book.Add(ctx, r, now.Number)
	if errors.Is(err, ErrConflict) { // another process was faster
		return k.o.Book.Current(ctx)
	}
	if err == nil {
		k.o.Logger.Warn("the broker had lost revisions of the rules; the newest known one is back", "was", r.String(), "is", added.String())
	}
	return added, err
}

func (k *Keeper) agree(own *carried, now Revision, agreed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.own != own { // reloaded meanwhile
		if agreed && k.own != nil {
			k.own.agreed = now.Number
		}
		return
	}
	k.agreedTo = 0
	switch {
	case agreed:
		k.agreedTo, k.differs = now.Number, time.Time{}
	case k.differs.IsZero():
		k.differs = time.Now()
	}
}

// report raises and clears the faults. err is the result of the last step.
func (k *Keeper) report(err error) {
	k.mu.Lock()
	own, now, current, differs := k.own, k.current, k.rules, k.differs
	k.mu.Unlock()

	switch {
	case err == nil:
		k.failing = time.Time{}
	case errors.Is(err, ErrNoConnection): // has a fault of its own
	default:
		if k.failing.IsZero() {
			k.failing = time.Now()
		}
		if !errors.Is(err, ErrNoRevision) {
			k.trouble.Log("error", err)
		}
	}
	known := current != nil || own != nil || k.o.Known
	switch {
	case err == nil:
		k.o.Faults.Clear(faults.RulesUnknown, faults.Whole)
	case known && !k.failing.IsZero() && time.Since(k.failing) >= k.o.DiffersAfter:
		k.o.Faults.Set(faults.RulesUnknown, faults.Whole, fmt.Sprintf("the current rules are unknown, and the ones from before stay in force: %v", err))
	case !known && time.Since(k.began) >= min(unknownAfter, k.o.DiffersAfter):
		k.o.Faults.Set(faults.RulesUnknown, faults.Whole, fmt.Sprintf(
			"nothing is counted, because this process has no rules: %v. Start an edge or an aggregator that has rules in its configuration, or add some with: aggregator rules add FILE. An edge that follows keeps the last ones in rules.json in its directory", err))
	}

	if own == nil || differs.IsZero() || time.Since(differs) < k.o.DiffersAfter || current == nil {
		if own == nil || differs.IsZero() {
			k.o.Faults.Clear(faults.RulesDiffer, faults.Whole)
		}
		return
	}
	remedy := fmt.Sprintf("aggregator rules authority %s", k.o.Authority)
	if now.Authority == k.o.Authority {
		remedy = "aggregator rules use N, with a number that aggregator rules list shows"
	}
	k.o.Faults.Set(faults.RulesDiffer, faults.Whole, fmt.Sprintf(
		"the rules of %s (%s) are not in force, but those of %s%s. Reload with the wanted rules, or remove the rules here to follow, or put these in force: %s",
		own.from, own.id.Short(), now, Differences(current, own.rules), remedy))
}

// Differences returns the differences between two sets of rules, as the end of a
// sentence.
func Differences(was, is *ruleset.Rules) string {
	changes := ruleset.Diff(was, is)
	if len(changes) == 0 {
		return ""
	}
	return ". The differences: " + changes.String()
}

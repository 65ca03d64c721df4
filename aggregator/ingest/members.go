package ingest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hotboard/hotboard/internal/faults"
)

// Timing of membership. The shards of a killed aggregator go to others when its
// membership and its leases have both expired: after memberTTL, memberEvery and
// some more checks.
const (
	memberTTL   = 5 * time.Second // since an aggregator last announced itself
	memberEvery = time.Second     // between two announcements
)

// divide keeps this aggregator among those that divide the shards, until ctx is
// done.
func (in *Ingest) divide(ctx context.Context) {
	for wait(ctx, memberEvery); ctx.Err() == nil; wait(ctx, memberEvery) {
		in.announce(ctx)
	}
	opCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := in.Store.Members(opCtx, in.Owner, 0); err != nil {
		in.Logger.Warn("leaving the shards to other aggregators failed; they take over in some seconds", "error", err)
	}
}

// announce renews this aggregator's membership and records the other members. An
// aggregator that cannot read the log lets its membership expire.
func (in *Ingest) announce(ctx context.Context) {
	if !in.Conn.IsConnected() {
		return
	}
	opCtx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	now, err := in.Store.Members(opCtx, in.Owner, memberTTL)
	before := in.members.Load()
	if err != nil {
		// Later the workers notice it and go on with the last division.
		if before == nil && failed(ctx, err) {
			in.Faults.Set(faults.StoreAway, faults.Whole, fmt.Sprintf("looking for other aggregators: %v", err))
		}
		return
	}
	in.Faults.Clear(faults.StoreAway, faults.Whole)
	if before == nil || !slices.Equal(*before, now) {
		in.Logger.Info("the aggregators divide the shards among them", "aggregators", now, "this", in.Owner)
		in.members.Store(&now)
	}
}

// Owns reports whether this aggregator should fold a shard.
func (in *Ingest) Owns(shard int) bool {
	m := in.members.Load()
	return m != nil && len(*m) > 0 && (*m)[shard%len(*m)] == in.Owner
}

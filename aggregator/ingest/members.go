package ingest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hotboard/hotboard/internal/faults"
)

// How aggregators find each other. One that is killed has lost its shards to the
// others when both its membership and its leases have ended: memberTTL, memberEvery
// and some looks later.
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
		in.Logger.Warn("leaving the shards to other aggregators; they take them in some seconds", "error", err)
	}
}

// announce renews the membership of this aggregator and notes the others. One that
// cannot read the log lets its membership end.
func (in *Ingest) announce(ctx context.Context) {
	if !in.Conn.IsConnected() {
		return
	}
	opCtx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	now, err := in.Store.Members(opCtx, in.Owner, memberTTL)
	before := in.members.Load()
	if err != nil {
		// Later the workers notice, who go on with the division that there was.
		if before == nil && away(ctx, err) {
			in.Faults.Set(faults.StoreAway, faults.Whole, fmt.Sprintf("finding other aggregators: %v", err))
		}
		return
	}
	in.Faults.Clear(faults.StoreAway, faults.Whole)
	if before == nil || !slices.Equal(*before, now) {
		in.Logger.Info("the aggregators divide the shards among them", "aggregators", now, "this", in.Owner)
		in.members.Store(&now)
	}
}

// owns reports whether a shard is for this aggregator to fold.
func (in *Ingest) owns(shard int) bool {
	m := in.members.Load()
	return m != nil && len(*m) > 0 && (*m)[shard%len(*m)] == in.Owner
}

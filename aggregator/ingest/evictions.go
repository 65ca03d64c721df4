package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/internal/faults"
)

// pingEvery is how often the store is asked whether it keeps everything. Counts
// between two checks may be wrong; the next check shows it.
const pingEvery = time.Second

// errEvicts stops a worker from folding into a store that evicts keys.
var errEvicts = errors.New("the store does not keep everything")

// watchEvictions holds the workers while the store may evict keys or has evicted
// some, until ctx is done. Other errors of the store are left to the workers.
func (in *Ingest) watchEvictions(ctx context.Context) {
	for ; ctx.Err() == nil; wait(ctx, pingEvery) {
		opCtx, cancel := context.WithTimeout(ctx, opTimeout)
		err := in.Store.Ping(opCtx)
		cancel()
		switch {
		case errors.Is(err, store.ErrEvicts):
			in.evicts.Store(true)
			in.Faults.Set(faults.StoreEvicts, faults.Whole, err.Error())
		case err == nil:
			in.evicts.Store(false)
			in.Faults.Clear(faults.StoreEvicts, faults.Whole)
		}
	}
}

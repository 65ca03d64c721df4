package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/hotboard/hotboard/aggregator/store"
)

// Losses implements [store.Store].
func (s *Store) Losses(ctx context.Context) (losses []store.Loss, err error) {
	err = s.view(ctx, func(se *session) error {
		losses, err = readLosses(se)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading losses from SQLite: %w", err)
	}
	return losses, nil
}

// Acknowledge implements [store.Store].
func (s *Store) Acknowledge(ctx context.Context) (losses []store.Loss, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.update(ctx, func(se *session) error {
		if losses, err = readLosses(se); err != nil {
			return err
		}
		return se.exec("DELETE FROM loss")
	})
	if err != nil {
		return nil, fmt.Errorf("acknowledging losses in SQLite: %w", err)
	}
	return losses, nil
}

func readLosses(se *session) (losses []store.Loss, err error) {
	err = se.each("SELECT shard, edge, first, last, batches FROM loss ORDER BY shard, edge", nil, func(r *sql.Rows) error {
		var l store.Loss
		var first, last, batches int64
		err := r.Scan(&l.Shard, &l.Edge, &first, &last, &batches)
		l.From, l.To, l.Batches = uint64(first), uint64(last), uint64(batches)
		losses = append(losses, l)
		return err
	})
	return losses, err
}

package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/hotboard/hotboard/aggregator/store"
)

func formatLoss(l *store.Loss) string { return fmt.Sprintf("%d %d %d", l.From, l.To, l.Batches) }

// Losses implements [store.Store].
func (s *Store) Losses(ctx context.Context) ([]store.Loss, error) {
	if s.closed.Load() {
		return nil, redis.ErrClosed
	}
	cmds := make([]*redis.MapStringStringCmd, len(s.shards))
	_, err := s.reader.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, h := range s.shards {
			cmds[i] = p.HGetAll(ctx, h.keys.losses())
		}
		return nil
	})
	var losses []store.Loss
	for i, h := range s.shards {
		if err == nil {
			losses, err = h.appendLosses(losses, cmds[i].Val())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading losses from Redis: %w", err)
	}
	return losses, nil
}

// Acknowledge implements [store.Store].
func (s *Store) Acknowledge(ctx context.Context) (losses []store.Loss, err error) {
	if s.closed.Load() {
		return nil, redis.ErrClosed
	}
	for _, h := range s.shards {
		var all *redis.MapStringStringCmd
		_, err := s.writer.TxPipelined(ctx, func(p redis.Pipeliner) error {
			all = p.HGetAll(ctx, h.keys.losses())
			p.Unlink(ctx, h.keys.losses())
			return nil
		})
		if err == nil {
			losses, err = h.appendLosses(losses, all.Val())
		}
		if err != nil {
			return losses, fmt.Errorf("acknowledging the losses of shard %d in Redis: %w", h.n, err)
		}
	}
	return losses, nil
}

// appendLosses appends the losses of one shard, by edge.
func (h *shard) appendLosses(losses []store.Loss, fields map[string]string) ([]store.Loss, error) {
	first := len(losses)
	for edge, value := range fields {
		l := store.Loss{Shard: h.n, Edge: edge}
		if _, err := fmt.Sscanf(value, "%d %d %d", &l.From, &l.To, &l.Batches); err != nil {
			return losses, fmt.Errorf("field %q of %s: %w", edge, h.keys.losses(), err)
		}
		losses = append(losses, l)
	}
	slices.SortFunc(losses[first:], func(a, b store.Loss) int { return cmp.Compare(a.Edge, b.Edge) })
	return losses, nil
}

package storetest

import (
	"context"
	"testing"
	"time"
)

func testLeases(t *testing.T, b Backend) {
	s, ctx := b.open(t, 2), t.Context()
	lease := func(shard int, owner string, ttl time.Duration) bool {
		t.Helper()
		return must[bool](t)(s.Lease(ctx, shard, owner, ttl))
	}
	release := func(shard int, owner string) {
		t.Helper()
		if err := s.Release(ctx, shard, owner); err != nil {
			t.Fatal(err)
		}
	}
	release(0, "a") // nobody holds it
	equal(t, "a takes shard 0", lease(0, "a", time.Hour), true)
	equal(t, "a renews", lease(0, "a", time.Hour), true)
	equal(t, "b takes a's", lease(0, "b", time.Hour), false)
	equal(t, "b takes shard 1", lease(1, "b", time.Hour), true)
	release(0, "b")
	equal(t, "b takes what it released for a", lease(0, "b", time.Hour), false)
	release(0, "a")
	equal(t, "b takes what a released", lease(0, "b", time.Hour), true)
	equal(t, "a takes b's", lease(0, "a", time.Hour), false)

	// A lease that is not renewed expires, and renewing sets the new end.
	equal(t, "b renews for a moment", lease(0, "b", 20*time.Millisecond), true)
	eventually(t, "a takes over from b", func() bool { return lease(0, "a", time.Hour) })
	equal(t, "b takes a's again", lease(0, "b", time.Hour), false)
	equal(t, "shard 1 is still b's", lease(1, "a", time.Hour), false)
}

func testMembers(t *testing.T, b Backend) {
	s, ctx := b.open(t, 2), t.Context()
	members := func(owner string, ttl time.Duration) []string {
		t.Helper()
		return must[[]string](t)(s.Members(ctx, owner, ttl))
	}
	equal(t, "members after b left, who was none", len(members("b", 0)), 0)
	equal(t, "b joins", members("b", time.Hour), []string{"b"})
	equal(t, "a joins", members("a", time.Hour), []string{"a", "b"})
	equal(t, "c joins", members("c", time.Hour), []string{"a", "b", "c"})
	equal(t, "b renews", members("b", time.Hour), []string{"a", "b", "c"})
	equal(t, "a leaves", members("a", 0), []string{"b", "c"})
	equal(t, "a leaves again", members("a", 0), []string{"b", "c"})

	// A member that does not renew expires, and renewing sets the new end.
	equal(t, "c renews for a moment", members("c", 20*time.Millisecond), []string{"b", "c"})
	eventually(t, "c's end", func() bool { return len(members("b", time.Hour)) == 1 })
	equal(t, "c joins again", members("c", time.Hour), []string{"b", "c"})
	if b.Share != nil {
		other := b.Share(t, s)
		equal(t, "another process", must[[]string](t)(other.Members(ctx, "d", time.Hour)), []string{"b", "c", "d"})
	}
}

// eventually waits until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within 20 s", what)
		case <-tick.C:
		}
	}
}

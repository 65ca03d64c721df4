package clock

import (
	"testing"
	"time"
)

func TestSet(t *testing.T) {
	then := time.Date(2015, 5, 17, 10, 5, 3, 0, time.UTC)
	restore := Set(func() time.Time { return then })
	if got := Now(); !got.Equal(then) {
		t.Errorf("Now() = %v after Set, want %v", got, then)
	}
	restore()
	if got := Now(); got.Equal(then) {
		t.Errorf("Now() = %v after restore, want the real time", got)
	}
}

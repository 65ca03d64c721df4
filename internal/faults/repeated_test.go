package faults

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := NewRepeated(slog.New(slog.NewTextHandler(&log, nil)), slog.LevelWarn, "it happened")
		for i := range 2500 {
			r.Log("n", i)
			time.Sleep(LogEvery / 1000)
		}
		var got []string
		for line := range strings.Lines(log.String()) {
			_, line, _ = strings.Cut(strings.TrimSpace(line), " level=")
			got = append(got, line)
		}
		want := []string{`WARN msg="it happened" n=0 times=1`, `WARN msg="it happened" n=1000 times=1000`, `WARN msg="it happened" n=2000 times=1000`}
		if !slices.Equal(got, want) {
			t.Errorf("the log is\n%s", log.String())
		}
	})
}

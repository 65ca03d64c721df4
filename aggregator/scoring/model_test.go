package scoring_test

import (
	"math"
	"testing"

	"github.com/hotboard/hotboard/aggregator/scoring"
	"github.com/hotboard/hotboard/ruleset"
)

// The expected values were computed with 30 digits, not with this code.
func TestGravityFigures(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		points, hours float64
		damping       string
		want          float64
	}{
		{120, 12, "", 2.29081064496363758301},
		{80, 4, "", 5.44331053951817355155},
		{300, 72, "", 0.47127421112359167851},
		{300, 72, ruleset.DampingLog, 0.00896537962604959620},
		{1, -5, "", 0.35355339059327376220}, // published in the future: age 0
	} {
		s := ruleset.Score{Model: ruleset.Gravity, Base: 2, Gamma: 1.5, Damping: tc.damping}
		now := int64(1_000_000_000_000)
		age := scoring.Age(now, now-int64(tc.hours*3600_000))
		if got := scoring.Gravity(&s, tc.points, age); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%v points at %v h, damping %q: got %.12f, want %.12f", tc.points, tc.hours, tc.damping, got, tc.want)
		}
	}
}

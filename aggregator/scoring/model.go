// Package scoring holds the formulas of the hot board's models. The fold adds up
// scores with them, and boards read them.
package scoring

import (
	"math"
	"strconv"
	"time"

	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/ruleset"
)

const msPerHour = 3600 * 1000

// Age returns the age at now of something published at published, in hours. Both
// arguments are in milliseconds since the Unix epoch. The age is 0 when published
// is later than now.
func Age(now, published int64) float64 {
	return max(0, float64(now-published)) / msPerHour
}

// Decay is 1/(age + base)^gamma, with age and base in hours: the classic
// "gravity" of link aggregators.
func Decay(age, base, gamma float64) float64 {
	return 1 / math.Pow(age+base, gamma)
}

// Points is the weighted sum of views and uniques.
func Points(w ruleset.Weights, views, uniques float64) float64 {
	return w.PV*views + w.UV*uniques
}

// Gravity is the gravity score of points at an age in hours.
func Gravity(s *ruleset.Score, points, age float64) float64 {
	if s.Damping == ruleset.DampingLog {
		points = math.Log1p(points)
	}
	return points * Decay(age, s.Base, s.Gamma)
}

// HalfLifeWeight is 2^((t−landmark)/h): the amount that a hit at t adds to a
// half-life sum relative to landmark. All times are in milliseconds. With forward
// decay (Cormode et al., "Forward Decay", ICDE 2009) the factor still missing at
// read time, 2^((landmark−now)/h), is the same for every item, so no sum ever needs
// a rescan.
func HalfLifeWeight(t, landmark, h int64) float64 {
	return math.Exp2(float64(t-landmark) / float64(h))
}

// MaxExponent is the (t−landmark)/h at which the landmark of half-life sums moves
// up by whole half-lives. That multiplies every sum by a power of two and so loses
// no bit.
const MaxExponent = 512

// ScoreSet is the set of scores that the fold adds up for the list's model. Its
// name includes the parameters of the sums and the weights, so that sums with
// different ones never mix. Gravity and count need no such set: ok is false.
func ScoreSet(l *ruleset.List) (set store.Set, ok bool) {
	num := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	weights := ":" + num(l.Weights.PV) + ":" + num(l.Weights.UV)
	switch l.Score.Model {
	case ruleset.Accumulate:
		return store.Set{List: l.Name, Name: "accumulate:" + num(l.Score.Base) + ":" + num(l.Score.Gamma) + weights}, true
	case ruleset.HalfLife:
		return store.Set{List: l.Name, Name: "halflife:" + time.Duration(l.Score.HalfLife).String() + weights}, true
	}
	return store.Set{}, false
}

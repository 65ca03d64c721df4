package board

import (
	"math"

	"github.com/hotboard/hotboard/ruleset"
)

const msPerHour = 3600 * 1000

// Age returns how old something published at published is at now, both in
// milliseconds since the Unix epoch, in hours. What is published later has age 0.
func Age(now, published int64) float64 {
	return max(0, float64(now-published)) / msPerHour
}

// Decay is 1/(age + base)^gamma, with age and base in hours: the classic
// "gravity" of link aggregators.
func Decay(age, base, gamma float64) float64 {
	return 1 / math.Pow(age+base, gamma)
}

// Points are what views and unique views are worth together.
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

// HalfLifeWeight is 2^((t−landmark)/h): what a hit at t adds to a half-life sum
// that is relative to landmark. All times are in milliseconds. With forward
// decay (Cormode et al., "Forward Decay", ICDE 2009) the factor that is still
// missing at read time, 2^((landmark−now)/h), is the same for every item, so
// that sums never need to be rescanned.
func HalfLifeWeight(t, landmark, h int64) float64 {
	return math.Exp2(float64(t-landmark) / float64(h))
}

// MaxExponent is the (t−landmark)/h at which the landmark of half-life sums moves
// up, by whole half-lives, which multiplies every sum by a power of two and so
// loses no bit.
const MaxExponent = 512

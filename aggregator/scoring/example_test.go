package scoring_test

import (
	"fmt"

	"github.com/hotboard/hotboard/aggregator/scoring"
	"github.com/hotboard/hotboard/ruleset"
)

// With gravity, a new item with fewer points can be hotter than an old one with
// more.
func ExampleGravity() {
	score := &ruleset.Score{Model: ruleset.Gravity, Base: 2, Gamma: 1.5}
	for _, item := range []struct{ points, hours float64 }{{120, 12}, {80, 4}, {300, 72}} {
		fmt.Printf("%3.0f points, %2.0f h old: %.3f\n", item.points, item.hours, scoring.Gravity(score, item.points, item.hours))
	}
	// Output:
	// 120 points, 12 h old: 2.291
	//  80 points,  4 h old: 5.443
	// 300 points, 72 h old: 0.471
}

// With halflife, a hit adds twice as much as one a half-life earlier, so that
// the sums of all items stay comparable without being rescanned.
func ExampleHalfLifeWeight() {
	const day = 24 * 3600 * 1000 // in milliseconds
	fmt.Println(scoring.HalfLifeWeight(0, 0, day), scoring.HalfLifeWeight(day, 0, day), scoring.HalfLifeWeight(3*day, 0, day))
	// Output: 1 2 8
}

package calendar_test

import (
	"fmt"
	"time"

	"github.com/hotboard/hotboard/ruleset/calendar"
)

// Calendar windows and boards use the list's zone. On the last Sunday of October,
// the day has 25 hours in Berlin.
func ExamplePeriod_Bounds() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	noon := time.Date(2026, 10, 25, 12, 0, 0, 0, berlin)
	start, end := calendar.Day.Bounds(noon, berlin)
	fmt.Println(start.Format(time.RFC3339), end.Sub(start))
	// Output: 2026-10-24T22:00:00Z 25h0m0s
}

package board_test

import (
	"context"
	"fmt"
	"time"

	"github.com/hotboard/hotboard/aggregator/board"
	"github.com/hotboard/hotboard/aggregator/store"
	"github.com/hotboard/hotboard/aggregator/store/memstore"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/calendar"
)

// Boards answers queries from the counts of a store. Rows with equal scores
// share a rank.
func ExampleBoards_Board() {
	ctx := context.Background()
	now := time.Date(2026, 11, 20, 12, 30, 0, 0, time.UTC)
	rules, err := ruleset.ParseYAML("rules.yaml", []byte("lists: [{name: articles, pages: [\"/articles/{id}\"]}]"))
	if err != nil {
		fmt.Println(err)
		return
	}
	counts := memstore.New(1)
	today := store.PeriodSet("articles", calendar.Day, calendar.Day.Start(now, time.UTC))
	if err := counts.Commit(ctx, 0, &store.Commit{
		To: store.Position{Seq: 1},
		Scores: map[store.Set]map[string]store.Tally{today: {
			"saved-means-synced": {Views: 812, Uniques: 700},
			"tail-latency":       {Views: 402, Uniques: 400},
			"who-is-a-visitor":   {Views: 402, Uniques: 390},
			"etags":              {Views: 12, Uniques: 12},
		}},
	}); err != nil {
		fmt.Println(err)
		return
	}
	boards := board.New(counts, func() *ruleset.Rules { return rules }, func() time.Time { return now })
	b, err := boards.Board(ctx, board.Query{List: "articles", Period: "day", Limit: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, row := range b.Items {
		fmt.Println(row.Rank, row.ID, row.Views)
	}
	// Output:
	// 1 saved-means-synced 812
	// 2 who-is-a-visitor 402
	// 2 tail-latency 402
	// 4 etags 12
}

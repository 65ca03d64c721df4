package plaincount

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"time"
)

// noPage matches ids of assets: a style sheet, a script, an image, a font.
var noPage = regexp.MustCompile(`\.(css|js|png|gif|jpe?g|svg|ico|ttf|woff2?)$`)

// CheckBoards compares the board of every day and list from the Hotboard at url
// with c: the items, their order, ranks, views and uniques. It returns every
// difference.
func (c *Counts) CheckBoards(ctx context.Context, url string) error {
	var errs []error
	for _, day := range c.Days() {
		for _, list := range Lists {
			var got struct {
				Items []struct {
					Rank           int
					ID             string
					Views, Uniques int
				}
			}
			if err := get(ctx, fmt.Sprintf("%s/hot?list=%s&period=day&at=%sT12:00:00Z&limit=1000", url, list, day), &got); err != nil {
				return err
			}
			want := c.Boards[day][list]
			if len(got.Items) != len(want) {
				errs = append(errs, fmt.Errorf("%s of %s has %d items, and has to have %d", list, day, len(got.Items), len(want)))
			}
			for i := range min(len(got.Items), len(want)) {
				if row := Row(got.Items[i]); row != want[i] {
					errs = append(errs, fmt.Errorf("%s of %s, line %d: %+v, and has to be %+v", list, day, i+1, row, want[i]))
				}
				if id := got.Items[i].ID; noPage.MatchString(id) {
					errs = append(errs, fmt.Errorf("%s of %s has %q, which is no page", list, day, id))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// CheckTotals compares the totals of every list from the Hotboard at url with c.
// When they are equal, every hit has been counted.
func (c *Counts) CheckTotals(ctx context.Context, url string) error {
	for _, list := range Lists {
		var got struct {
			Periods map[string]Totals
		}
		if err := get(ctx, url+"/api/stats/"+list, &got); err != nil {
			return err
		}
		if got.Periods["all"] != c.Totals[list] {
			return fmt.Errorf("list %s has %+v, and has to have %+v", list, got.Periods["all"], c.Totals[list])
		}
	}
	return nil
}

func get(ctx context.Context, url string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s %s", url, resp.Status, body)
	}
	return json.Unmarshal(body, v)
}

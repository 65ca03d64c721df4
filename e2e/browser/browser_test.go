// Package browser tests the script of the pages, hotboard.js, in a real Chromium
// before a real Caddy.
package browser

import (
	"context"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/hotboard/hotboard/e2e/services"
)

// patience bounds every wait; only failures take that long.
const patience = 60 * time.Second

// device is a kind of browser. The User-Agent of headless Chromium would make it a
// bot.
type device struct {
	name      string
	userAgent string
	width     int
	height    int
}

var devices = []device{
	{
		"desktop", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
		1280, 800,
	},
	{
		"mobile", "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36",
		412, 915,
	},
}

// startBrowser runs a Chromium until the test ends, and returns the context for its
// tabs.
func startBrowser(t *testing.T, d device) context.Context {
	t.Helper()
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(services.Chromium(t)),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.UserAgent(d.userAgent),
		chromedp.WindowSize(d.width, d.height),
		chromedp.NoSandbox, // which root cannot use
		chromedp.NoFirstRun,
		chromedp.Headless,
		chromedp.DisableGPU,
	}
	for _, name := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync", "disable-dev-shm-usage"} {
		options = append(options, chromedp.Flag(name, true))
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(ctx, chromedp.WithErrorf(t.Logf))
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("closing Chromium: %v", err)
		}
		cancel()
		stop()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting Chromium: %v", err)
	}
	return ctx
}

// noMistakes fails the test when the current page threw an error or broke its
// content security policy.
func (b *tab) noMistakes() {
	b.t.Helper()
	if m := eval[[]string](b, `window.mistakes || []`); len(m) > 0 {
		b.t.Errorf("the page made mistakes: %q", m)
	}
}

// tab is a tab of a browser, with a profile of its own: its cache is empty.
type tab struct {
	t   *testing.T
	ctx context.Context
}

func newTab(t *testing.T, browser context.Context) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // without a limit, which would be the tab's
		t.Fatal(err)
	}
	b := &tab{t, ctx}
	b.before(`window.mistakes = [];
		addEventListener("error", (e) => mistakes.push(String(e.message)));
		addEventListener("unhandledrejection", (e) => mistakes.push(String(e.reason)));
		addEventListener("securitypolicyviolation", (e) => mistakes.push(e.violatedDirective + " " + e.blockedURI))`)
	return b
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// visit opens a page as from the address bar, and returns when it has loaded.
func (b *tab) visit(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

// before runs a script in every page from now on, before the page's own scripts.
func (b *tab) before(script string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	}))
}

// eval runs a script in the page, waits for a promise, and returns the result.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	return v
}

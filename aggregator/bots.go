package main

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/hotboard/hotboard/aggregator/config"
	"github.com/hotboard/hotboard/ruleset"
	"github.com/hotboard/hotboard/ruleset/bots"
)

const botsUsage = `Classifies User-Agents as bots or persons. It reads them from standard input, one
a line, and prints for each the verdict (bot or person), the class of
bot, the reason, the device and the User-Agent, separated by tabs.

Usage:

  aggregator bots [-file FILE] [-rules FILE] <USER-AGENTS

For example, the most frequent User-Agents of a log:

  awk -F'"' '{print $6}' access.log | sort | uniq -c | sort -rn | head -50 |
    sed 's/^ *[0-9]* //' | aggregator bots

`

// botsCache bounds the remembered verdicts; logs repeat User-Agents.
const botsCache = 10_000

func classifyBots(args []string, t terminal) error {
	fs := flags("aggregator bots", botsUsage, t)
	file := fs.String("file", "", "a `file` of patterns, such as the crawler-user-agents list (default: the file that the rules name)")
	rulesFile := fs.String("rules", "", "a `file` of rules, whose allow and deny lists apply")
	if err := parse(fs, args, false); err != nil {
		return err
	}
	rules := &ruleset.Bots{}
	if *rulesFile != "" {
		r, err := config.LoadRules(*rulesFile)
		if err != nil {
			return err
		}
		if r.Bots != nil {
			rules = r.Bots
		}
	}
	c := bots.New(rules, botsCache)
	if *file == "" {
		*file = rules.File
	}
	if *file != "" {
		p, err := bots.LoadFile(*file)
		if err != nil {
			return err
		}
		c.SetPatterns(p)
	}
	return printVerdicts(c, t.in, t.out)
}

func printVerdicts(c *bots.Classifier, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	w := bufio.NewWriter(out)
	for {
		line, err := lines.ReadString('\n')
		if line == "" && err == io.EOF {
			return w.Flush()
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("reading User-Agents: %w", err)
		}
		line = strings.TrimRight(line, "\r\n")
		v := c.Classify(line, netip.Addr{})
		verdict := "person"
		if v.Bot {
			verdict = "bot"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", verdict, dash(v.Class), dash(v.Reason), v.Device, dash(line))
		if lines.Buffered() == 0 { // somebody may be typing
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
}

// dash replaces an empty text, so that columns stay aligned.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

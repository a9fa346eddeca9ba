package chart

import (
	"testing"

	"flashsale.internal/test/chart/checks"
)

func TestMain(m *testing.M) { checks.Main(m, "../../..", checks.Helm4, checks.Helm3) }

func TestChart(t *testing.T) { checks.All(t) }

func TestHelm3RendersTheSame(t *testing.T) { checks.SameAs(t, checks.Helm3) }

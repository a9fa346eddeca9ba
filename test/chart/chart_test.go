package chart

import (
	"testing"

	"flashsale.internal/test/chart/checks"
)

const root = "../.."

func TestMain(m *testing.M) { checks.Main(m, root, checks.Helm3) }

func TestChart(t *testing.T) { checks.All(t) }

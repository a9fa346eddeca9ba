package client

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSolveProofOfWork(t *testing.T) {
	sum := sha256.Sum256([]byte("salt?id=1&421"))
	p := ProofOfWork{
		Algorithm: "SHA-256", Challenge: hex.EncodeToString(sum[:]), Salt: "salt?id=1&", Signature: "s", MaxNumber: 500,
	}
	payload, err := p.Solve(t.Context())
	require.NoError(t, err)
	raw, err := base64.StdEncoding.DecodeString(payload)
	require.NoError(t, err)
	var answer map[string]any
	require.NoError(t, json.Unmarshal(raw, &answer))
	require.EqualValues(t, 421, answer["number"])
	require.Equal(t, "salt?id=1&", answer["salt"])

	p.MaxNumber = 420
	_, err = p.Solve(t.Context())
	require.ErrorContains(t, err, "without a solution")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.Solve(ctx)
	require.ErrorIs(t, err, context.Canceled)
	p.Challenge = "00"
	_, err = p.Solve(t.Context())
	require.Error(t, err)
}

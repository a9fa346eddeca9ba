// Wording of the page with the widget of a third party.
export const provider = {
  title: 'Verification',
  loading: 'Getting a challenge.',
  provider: 'Complete the check below. It is run by a third party, which gets your address.',
  pow: 'Your device is computing. Keep this page open.',
  sending: 'Checking your answer.',
  solved: 'Solved. Going back to the sale.',
  failed: 'The check did not work here.',
  again: 'Try again',
  compute: 'Let my device compute instead',
  back: 'Back to the sale',
}

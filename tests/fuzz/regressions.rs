//! What was found by fuzzing and mended, each under a name that tells it. The inputs that need no story of their own
//! are files of the corpus.

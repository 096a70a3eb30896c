//! Runs the example programs. Each checks its own result.

#[path = "../examples/embed_axum.rs"]
pub mod embed_axum;

#[tokio::test]
async fn embed_axum_runs_to_its_end() {
    embed_axum::run().await.unwrap();
}
